#include "chat/forced_call.h"

#include "chat/format_rules.h"
#include "schema/schema.h"

#include "chat-peg-parser.h"

#include <algorithm>
#include <set>
#include <variant>
#include <vector>

namespace recua {

namespace {

using Builder = common_chat_peg_builder;

// Writes a format's parser as GBNF without its content parts. Rules without content keep their
// names.
class CallWriter {
public:
  CallWriter(const common_peg_arena &arena, const std::string &begun)
      : arena(arena), begun(begun) {}

  std::string write(common_peg_parser_id id, int depth = 0) {
    if (depth > format::most_depth) return refuse();
    if (const auto text = format::leaf(arena, id)) return *text;
    const auto &parser = arena.get(id);
    if (const auto *all = std::get_if<common_peg_sequence_parser>(&parser))
      return sequence(all->children, depth);
    if (const auto *any = std::get_if<common_peg_choice_parser>(&parser))
      return choice(any->children, depth);
    if (const auto *tag = std::get_if<common_peg_tag_parser>(&parser))
      return tag->tag == Builder::CONTENT ? begun_content(tag->child)
                                          : write(tag->child, depth + 1);
    if (const auto *atomic = std::get_if<common_peg_atomic_parser>(&parser))
      return write(atomic->child, depth + 1);
    if (const auto *rule = std::get_if<common_peg_rule_parser>(&parser))
      return holds(id, Builder::CONTENT) ? write(rule->child, depth + 1) : rule->name;
    if (const auto *ref = std::get_if<common_peg_ref_parser>(&parser))
      return holds(id, Builder::CONTENT) ? write(arena.get_rule(ref->name), depth + 1) : ref->name;
    if (const auto *repeated = std::get_if<common_peg_repetition_parser>(&parser)) {
      const bool may_go = repeated->min_count == 0 && talks(repeated->child) && begun.empty();
      if (may_go && !holds(repeated->child, Builder::TOOL_NAME)) return "";
      const std::string one = write(repeated->child, depth + 1);
      if (one.empty()) return "";
      return format::repeat("(" + one + ")", repeated->min_count, repeated->max_count);
    }
    return refuse();
  }

  bool known() const { return is_known; }
  bool holds(common_peg_parser_id id, const char *tag) const {
    std::set<common_peg_parser_id> seen;
    std::vector<common_peg_parser_id> open{id};
    while (!open.empty()) {
      const auto at = open.back();
      open.pop_back();
      if (!seen.insert(at).second) continue;
      const auto &parser = arena.get(at);
      const auto *marked = std::get_if<common_peg_tag_parser>(&parser);
      if (marked != nullptr && marked->tag == tag) return true;
      if (const auto *all = std::get_if<common_peg_sequence_parser>(&parser))
        open.insert(open.end(), all->children.begin(), all->children.end());
      else if (const auto *any = std::get_if<common_peg_choice_parser>(&parser))
        open.insert(open.end(), any->children.begin(), any->children.end());
      else if (const auto *repeated = std::get_if<common_peg_repetition_parser>(&parser))
        open.push_back(repeated->child);
      else if (const auto *until = std::get_if<common_peg_ac_parser>(&parser))
        open.push_back(until->child);
      else if (const auto child = format::inside(arena, at)) open.push_back(*child);
    }
    return false;
  }

private:
  std::string sequence(const std::vector<common_peg_parser_id> &children, int depth) {
    std::string made;
    for (size_t i = 0; i < children.size(); i++) {
      const auto mark = i == 0 ? std::nullopt : needed_end(children[i - 1], children[i]);
      const std::string one = write(mark.value_or(children[i]), depth + 1);
      if (!one.empty()) made += (made.empty() ? "" : " ") + one;
    }
    return made;
  }

  // Prefers the alternatives without content.
  std::string choice(const std::vector<common_peg_parser_id> &children, int depth) {
    const auto silent = [&](common_peg_parser_id child) { return !talks(child); };
    const bool some = begun.empty() && std::any_of(children.begin(), children.end(), silent);
    std::string made;
    for (const auto child : children) {
      if (some && talks(child)) continue;
      const std::string one = write(child, depth + 1);
      made += (made.empty() ? "" : " | ") + (one.empty() ? "\"\"" : one);
    }
    return "(" + made + ")";
  }

  // Has content, but no thoughts.
  bool talks(common_peg_parser_id id) const {
    return holds(id, Builder::CONTENT) && !holds(id, Builder::REASONING);
  }

  // Thoughts end at a mark. If the mark is optional, the next text would be read as part of the
  // thoughts unless it ends them itself; then the mark is required.
  std::optional<common_peg_parser_id> needed_end(common_peg_parser_id thoughts,
                                                 common_peg_parser_id next) const {
    const auto *tag = std::get_if<common_peg_tag_parser>(&arena.get(thoughts));
    const bool are_thoughts = tag != nullptr && tag->tag == Builder::REASONING;
    const auto *until = are_thoughts ? until_in(tag->child) : nullptr;
    const auto *optional = std::get_if<common_peg_repetition_parser>(&arena.get(next));
    if (until == nullptr || optional == nullptr || optional->min_count != 0) return std::nullopt;
    const auto *mark = std::get_if<common_peg_literal_parser>(&arena.get(optional->child));
    const auto &ends = until->delimiters;
    if (mark == nullptr || std::find(ends.begin(), ends.end(), mark->literal) == ends.end())
      return std::nullopt;
    const std::string call = beginning_of_calls();
    const bool call_ends = std::any_of(ends.begin(), ends.end(), [&](const std::string &end) {
      return call.compare(0, end.size(), end) == 0;
    });
    return call_ends ? std::nullopt : std::optional(optional->child);
  }

  const common_peg_until_parser *until_in(common_peg_parser_id id) const {
    for (int depth = 0; depth < format::most_depth; depth++) {
      if (const auto *until = std::get_if<common_peg_until_parser>(&arena.get(id))) return until;
      const auto child = format::inside(arena, id);
      if (!child) return nullptr;
      id = *child;
    }
    return nullptr;
  }

  // The mark before the first call; '' if unknown.
  std::string beginning_of_calls() const {
    for (common_peg_parser_id id = 0; id < arena.size(); id++) {
      const auto *rule = std::get_if<common_peg_rule_parser>(&arena.get(id));
      if (rule != nullptr && rule->trigger) return first_literal(rule->child, 0);
    }
    return "";
  }

  std::string first_literal(common_peg_parser_id id, int depth) const {
    if (depth > format::most_depth) return "";
    const auto &parser = arena.get(id);
    if (const auto *literal = std::get_if<common_peg_literal_parser>(&parser))
      return literal->literal;
    if (const auto *repeated = std::get_if<common_peg_repetition_parser>(&parser))
      return first_literal(repeated->child, depth + 1);
    if (const auto child = format::inside(arena, id)) return first_literal(*child, depth + 1);
    const auto *all = std::get_if<common_peg_sequence_parser>(&parser);
    const auto *any = std::get_if<common_peg_choice_parser>(&parser);
    if (all == nullptr && any == nullptr) return "";
    for (const auto child : all != nullptr ? all->children : any->children) {
      const std::string found = first_literal(child, depth + 1);
      if (!found.empty()) return found;
    }
    return "";
  }

  // The content in the prompt, up to a possible start of a call.
  std::string begun_content(common_peg_parser_id id) const {
    if (begun.empty()) return "";
    const auto *until = until_in(id);
    size_t end = begun.size();
    size_t perhaps = end;
    for (const auto &mark : until == nullptr ? std::vector<std::string>{} : until->delimiters) {
      end = std::min(end, begun.find(mark));
      for (size_t length = std::min(mark.size(), begun.size()); length > 0; length--) {
        if (begun.compare(begun.size() - length, length, mark, 0, length) != 0) continue;
        perhaps = std::min(perhaps, begun.size() - length);
        break;
      }
    }
    std::string made = "(" + schema::literal(begun.substr(0, end));
    if (perhaps < end) made += " | " + schema::literal(begun.substr(0, perhaps));
    return made + ")?";
  }

  std::string refuse() {
    is_known = false;
    return "";
  }

  const common_peg_arena &arena;
  const std::string &begun;
  bool is_known = true;
};

} // namespace

bool force_call(const common_peg_arena &parser, const std::string &begun, std::string &grammar) {
  CallWriter writer(parser, begun);
  if (!writer.holds(parser.root(), Builder::CONTENT)) return true;
  const auto [from, to] = format::find_rule(grammar, "root");
  if (from == std::string::npos) return false;
  const std::string made = writer.write(parser.root());
  if (!writer.known()) return false;
  grammar.replace(from, to - from, made);
  return true;
}

} // namespace recua
