// See message_parts.h.
#include "chat/message_parts.h"

#include "chat/turns.h"
#include "model/tokens.h"

#include "chat.h"

#include <algorithm>
#include <set>

namespace recua {

namespace {

bool is_text(const common_json &part) {
  return part.is_object() && part.contains("text") && part.at("text").is_string();
}

bool has_text_parts(const common_json &message) {
  if (!message.is_object() || !message.contains("content")) return false;
  const auto &content = message.at("content");
  return content.is_array() && content.size() > 1 && std::all_of(content.begin(), content.end(), is_text);
}

// The roles of messages of which a part is missing. Parts stand in the prompt in their order, and
// templates may trim them.
std::set<std::string> roles_missing_parts(const common_json &messages, const std::string &prompt) {
  std::set<std::string> roles;
  size_t from = 0;
  for (const auto &message : messages) {
    const std::string role = role_of(message);
    if (!has_text_parts(message) || roles.count(role) > 0) continue;
    for (const auto &part : message.at("content")) {
      const std::string text = trimmed(part.at("text").get<std::string>());
      const size_t at = prompt.find(text, from);
      if (at != std::string::npos) from = at + text.size();
      else roles.insert(role);
    }
  }
  return roles;
}

} // namespace

std::string joined_parts(const std::string &messages, const std::string &prompt) {
  const auto all = common_json::parse(messages);
  const std::set<std::string> roles = roles_missing_parts(all, prompt);
  if (roles.empty()) return "";
  auto joined = common_json::array();
  for (const auto &message : all) {
    auto copy = message;
    if (has_text_parts(message) && roles.count(role_of(message)) > 0) copy.set({"content", text_of(message)});
    joined.push_back(copy);
  }
  return joined.dump();
}

} // namespace recua
