// Text parts that a template leaves out. Some templates print only the first part of a tool's
// result or of a system message. Used by chat.cpp on pool threads.
#pragma once

#include <set>
#include <string>

namespace recua {

// The roles of messages of which a part is missing in the prompt. Parts stand there in their order,
// and templates may trim them.
std::set<std::string> roles_missing_parts(const std::string &messages, const std::string &prompt);
// The messages, as JSON, with the text parts of each message of these roles joined by a newline.
std::string joined_parts(const std::string &messages, const std::set<std::string> &roles);

} // namespace recua
