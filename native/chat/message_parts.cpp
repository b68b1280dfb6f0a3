// See message_parts.h.
#include "chat/message_parts.h"

#include "chat/turns.h"
#include "model/tokens.h"

#include "chat.h"

#include <algorithm>
#include <cstdint>
#include <vector>

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

// Where a text stands in another, at `from` or later; npos if nowhere. Unlike std::string::find, it
// takes no longer for texts that repeat themselves (Knuth, Morris, Pratt).
size_t find_in(const std::string &whole, const std::string &text, size_t from) {
  if (text.empty()) return from;
  // For each beginning of the text: how many of its first letters are also its last ones.
  std::vector<uint32_t> repeated(text.size());
  for (uint32_t at = 1, same = 0; at < text.size(); at++) {
    while (same > 0 && text[at] != text[same]) same = repeated[same - 1];
    if (text[at] == text[same]) same++;
    repeated[at] = same;
  }
  uint32_t same = 0;
  for (size_t at = from; at < whole.size(); at++) {
    while (same > 0 && whole[at] != text[same]) same = repeated[same - 1];
    if (whole[at] == text[same]) same++;
    if (same == text.size()) return at + 1 - same;
  }
  return std::string::npos;
}

// Moves `from` behind the parts of a message. False if one of them is not in the prompt.
bool pass_parts(const common_json &message, const std::string &prompt, size_t &from) {
  for (const auto &part : message.at("content")) {
    const std::string text = trimmed(part.at("text").get<std::string>());
    const size_t at = find_in(prompt, text, from);
    if (at == std::string::npos) return false;
    from = at + text.size();
  }
  return true;
}

} // namespace

std::set<std::string> roles_missing_parts(const std::string &messages, const std::string &prompt) {
  std::set<std::string> roles;
  size_t from = 0;
  for (const auto &message : common_json::parse(messages)) {
    const std::string role = role_of(message);
    if (!has_text_parts(message) || roles.count(role) > 0) continue;
    if (!pass_parts(message, prompt, from)) roles.insert(role);
  }
  return roles;
}

std::string joined_parts(const std::string &messages, const std::set<std::string> &roles) {
  auto joined = common_json::array();
  for (const auto &message : common_json::parse(messages)) {
    auto copy = message;
    if (has_text_parts(message) && roles.count(role_of(message)) > 0) copy.set({"content", text_of(message)});
    joined.push_back(copy);
  }
  return joined.dump();
}

} // namespace recua
