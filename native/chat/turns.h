// Turns in the form that templates accept. Clients send messages that templates refuse: two user
// turns in a row, a system message in the middle, calls with truncated arguments. Messages that a
// template accepts are passed unchanged; refused ones are rewritten by the rules here
// (docs/history.md) and tried once more. Used by chat.cpp on pool threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace recua {

// The same messages, as JSON, in a form that most templates accept; the unchanged text if they
// already have that form. `users_join_results`: a user's text right behind a tool's result becomes
// part of it, for templates that want the answer there.
std::string usual_turns(const std::string &messages, bool users_join_results);

// The index of the first message or tool that a template refuses, found by a binary search over
// beginnings of the JSON list; -1 if it cannot be found. `refuses` renders such a beginning.
int32_t refused_item(const std::string &list, const std::function<bool(const std::string &)> &refuses);

} // namespace recua
