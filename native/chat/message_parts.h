// Text parts that a template leaves out. Some templates print only the first part of a tool's
// result or of a system message. Used by chat.cpp on pool threads.
#pragma once

#include <string>

namespace recua {

// If parts of some messages are missing in the prompt: the same messages, as JSON, with the parts
// of each message of these roles joined by a newline. Otherwise an empty string.
std::string joined_parts(const std::string &messages, const std::string &prompt);

} // namespace recua
