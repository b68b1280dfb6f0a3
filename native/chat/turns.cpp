// See turns.h.
#include "chat/turns.h"

#include "chat.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <vector>

namespace recua {

namespace {

std::string role_of(const common_json &message) {
  return message.is_object() && message.contains("role") && message.at("role").is_string() ? message.at("role").get<std::string>() : "";
}

std::string text_of(const common_json &message) {
  if (!message.contains("content")) return "";
  const auto &content = message.at("content");
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (!content.is_array()) return text;
  for (const auto &part : content) {
    if (!part.is_object() || !part.contains("text") || !part.at("text").is_string()) continue;
    if (!text.empty()) text += '\n';
    text += part.at("text").get<std::string>();
  }
  return text;
}

bool has_calls(const common_json &message) {
  return message.contains("tool_calls") && message.at("tool_calls").is_array() && !message.at("tool_calls").empty();
}

// Mistral's templates take no other ids.
bool is_usual_id(const std::string &id) {
  return id.size() == 9 && std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
}

// By the position of the call, so that the same conversation gets the same prompt.
std::string usual_id(size_t number) {
  const std::string digits = std::to_string(number);
  return "call" + std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

common_json user(const std::string &text) {
  return common_json::object({{"role", "user"}, {"content", text}});
}

// Arguments must be an object; any other text is put into one.
common_json with_object(const common_json &given) {
  auto call = given;
  if (!call.contains("function") || !call.at("function").contains("arguments")) return call;
  auto &function = call.at("function");
  if (!function.at("arguments").is_string()) return call;
  const auto text = function.at("arguments").get<std::string>();
  const auto parsed = common_json::parse_no_throw(text);
  if (!parsed.is_discarded() && parsed.is_object()) return call;
  auto object = common_json::object();
  if (!text.empty()) object.set({"arguments", text});
  function.set({"arguments", object.dump()});
  return call;
}

struct Turn {
  std::string role;
  common_json message;
  std::string text;
  std::vector<common_json> calls;
  bool joins = false;

  void join(Turn &&other) {
    if (!text.empty() && !other.text.empty()) text += "\n\n";
    text += other.text;
    for (auto &call : other.calls) calls.push_back(std::move(call));
    if (other.message.contains("reasoning_content") && !message.contains("reasoning_content")) {
      message.set({"reasoning_content", other.message.at("reasoning_content")});
    }
    joins = true;
  }

  common_json written() const {
    auto written = message;
    if (joins && text.empty() && !calls.empty()) written.set({"content", nullptr});
    else if (joins) written.set({"content", text});
    if (calls.empty()) return written;
    auto list = common_json::array();
    for (const auto &call : calls) list.push_back(call);
    written.set({"tool_calls", list});
    return written;
  }
};

} // namespace

std::string usual_turns(const std::string &messages, bool users_join_results) {
  std::vector<Turn> turns;
  std::set<std::string> asked; // ids of calls
  std::map<std::string, std::string> renamed;
  size_t calls = 0;
  for (const auto &given : common_json::parse(messages)) {
    const std::string role = role_of(given);
    Turn turn{role, given, text_of(given), {}};
    if (role == "assistant" && has_calls(given)) {
      for (const auto &call : given.at("tool_calls")) {
        const std::string id = call.value("id", "");
        asked.insert(id);
        auto usual = with_object(call);
        if (!id.empty() && !is_usual_id(id)) {
          renamed[id] = usual_id(calls);
          usual.set({"id", renamed[id]});
        }
        calls++;
        turn.calls.push_back(std::move(usual));
      }
    }
    // Kept in place, so that the KV of the text behind it stays valid.
    const bool late = (role == "system" || role == "developer") && !turns.empty();
    const bool unasked = role == "tool" && (given.contains("tool_call_id") ? asked.count(given.value("tool_call_id", "")) == 0 : asked.empty());
    if (late || unasked) turn = {"user", user(turn.text), turn.text, {}};
    const auto other = renamed.find(role == "tool" ? given.value("tool_call_id", "") : "");
    if (!unasked && other != renamed.end()) turn.message.set({"tool_call_id", other->second});
    const bool again = !turns.empty() && turns.back().role == turn.role && (turn.role == "user" || turn.role == "assistant");
    const bool joins = users_join_results && turn.role == "user" && !turns.empty() && turns.back().role == "tool";
    if (again || joins) turns.back().join(std::move(turn));
    else turns.push_back(std::move(turn));
  }
  auto out = common_json::array();
  for (const auto &turn : turns) out.push_back(turn.written());
  return out.dump();
}

int32_t refused_item(const std::string &list, const std::function<bool(const std::string &)> &refuses) {
  const auto all = common_json::parse(list);
  const auto beginning = [&](size_t count) {
    auto some = common_json::array();
    for (size_t i = 0; i < count; i++) some.push_back(all.at(i));
    return some.dump();
  };
  if (all.empty() || !refuses(list)) return -1;
  size_t taken = 0, refused = all.size();
  while (refused - taken > 1) {
    const size_t half = taken + (refused - taken) / 2;
    if (refuses(beginning(half))) refused = half;
    else taken = half;
  }
  return static_cast<int32_t>(refused - 1);
}

} // namespace recua
