// Turns as templates want them. Clients send what templates refuse: two turns of a user in a row, a
// system message in the middle, calls whose arguments are cut off. Messages that a template takes
// go to it as they are; those that it refuses are brought into another form by the rules here
// (docs/history.md) and tried once more. Used by chat.cpp on pool threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace recua {

// The same messages in a form that all templates take, as JSON; or the text itself, where they have
// that form.
std::string usual_turns(const std::string &messages);

// Of messages that a template refuses the first that it refuses, told by the beginnings of the
// list; -1 where that is not to be told. `refuses` renders such a beginning.
int32_t refused_turn(const std::string &messages, const std::function<bool(const std::string &)> &refuses);

} // namespace recua
