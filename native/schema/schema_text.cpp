// Literals, repetitions and property names as GBNF expressions.
#include "schema/schema_text.h"

#include "unicode.h"

#include <algorithm>

namespace recua::schema {

std::string literal(const std::string &text) {
  std::string quoted = "\"";
  for (const char c : text) {
    switch (c) {
      case '\r': quoted += "\\r"; break;
      case '\n': quoted += "\\n"; break;
      case '"': quoted += "\\\""; break;
      case '\\': quoted += "\\\\"; break;
      default: quoted += c;
    }
  }
  return quoted + "\"";
}

std::string repeat(const std::string &item, size_t min, long long max, const NameRule &name_rule) {
  constexpr size_t chunk = 500;
  if (max == 0) return "";
  if (min == 0 && max == 1) return item + "?";
  if (max < 0 && min <= 1) return item + (min == 0 ? "*" : "+");
  // A repeated rule counts as one element, a repeated group as everything in it.
  const std::string one = item[0] == '(' ? name_rule(item) : item;
  const auto counted = [&](const std::string &of, size_t from, size_t to) {
    if (to == 0) return std::string();
    return from == 1 && to == 1 ? of : of + "{" + std::to_string(from) + "," + std::to_string(to) + "}";
  };
  const auto exactly = [&](auto &&self, const std::string &of, size_t count) -> std::string {
    if (count <= chunk) return counted(of, count, count);
    const std::string larger = name_rule(counted(of, chunk, chunk));
    const std::string left = counted(of, count % chunk, count % chunk);
    return self(self, larger, count / chunk) + (left.empty() ? "" : " " + left);
  };
  const auto up_to = [&](auto &&self, const std::string &of, size_t count) -> std::string {
    if (count <= chunk) return counted(of, 0, count);
    const std::string larger = name_rule(counted(of, chunk, chunk));
    const size_t times = count / chunk, left = count % chunk;
    const std::string fewer = times == 1 ? "" : self(self, larger, times - 1) + " ";
    return "(" + fewer + counted(of, 0, chunk - 1) + " | " + exactly(exactly, larger, times) + (left == 0 ? "" : " " + counted(of, 0, left)) + ")";
  };
  if (max >= 0 && static_cast<size_t>(max) <= chunk) return counted(one, min, static_cast<size_t>(max));
  if (max < 0 && min <= chunk) return one + "{" + std::to_string(min) + ",}";
  const std::string begin = exactly(exactly, one, min);
  const std::string end = max < 0 ? one + "*" : up_to(up_to, one, static_cast<size_t>(max) - min);
  return begin.empty() ? end : end.empty() ? begin : begin + " " + end;
}

std::string other_names(const std::vector<common_chat_schema_property> &properties, Budget &budget, const NameRule &name_rule) {
  struct Node {
    std::map<uint32_t, size_t> next;
    bool ends = false;
  };
  std::vector<Node> tree(1);
  for (const auto &property : properties) {
    size_t at = 0;
    for (size_t i = 0; i < property.name.size();) {
      const auto read = common_parse_utf8_codepoint(property.name, i);
      const uint32_t character = read.status == utf8_parse_result::SUCCESS ? read.codepoint : 0xFFFD;
      i += std::max<size_t>(1, read.bytes_consumed);
      const auto found = tree[at].next.find(character);
      if (found == tree[at].next.end()) {
        budget.step();
        tree.emplace_back();
        const size_t made = tree.size() - 1;
        tree[at].next[character] = made;
        at = made;
      } else {
        at = found->second;
      }
    }
    tree[at].ends = true;
  }
  static const std::map<uint32_t, char> escapes = {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}};
  const std::string any = "char";
  std::vector<std::string> rule(tree.size()); // by prefix: its non-empty continuations
  for (size_t i = tree.size(); i-- > 0;) {
    const Node &node = tree[i];
    if (node.next.empty()) {
      rule[i] = any + "+";
      continue;
    }
    std::string ways, plain, letters = "\"\\bfnrt";
    for (const auto &[character, child] : node.next) {
      const auto escaped = escapes.find(character);
      if (escaped != escapes.end()) letters.erase(letters.find(escaped->second), 1);
      std::string own = escaped != escapes.end() ? literal(std::string("\\") + escaped->second) : character < 0x20 || character == 0x7F ? "" : literal(common_unicode_cpt_to_utf8(character));
      if (own.empty()) continue; // can only be written as a \u escape
      if (escaped == escapes.end()) plain += character == ']' ? "\\]" : character == '[' ? "\\[" : character == '-' ? "\\x2D" : common_unicode_cpt_to_utf8(character);
      const bool may_end = !tree[child].ends;
      const std::string more = tree[child].next.empty() ? rule[child] : name_rule(rule[child]);
      ways += own + " " + (may_end && !tree[child].next.empty() ? more + "?" : more) + " | ";
    }
    ways += "[^\"\\\\\\x7F\\x00-\\x1F" + plain + "] " + any + "*";
    std::string marks;
    for (const char c : letters) marks += c == '\\' ? "\\\\" : std::string(1, c);
    if (!marks.empty()) ways += " | \"\\\\\" [" + marks + "] " + any + "*";
    budget.write(ways.size());
    rule[i] = ways;
  }
  return "[\"] (" + rule[0] + ")" + (tree[0].ends ? "" : "?") + " [\"]";
}

} // namespace recua::schema
