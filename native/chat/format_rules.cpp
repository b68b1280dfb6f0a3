#include "chat/format_rules.h"

#include "schema/schema.h"

#include <algorithm>
#include <variant>

namespace recua::format {

std::string repeat(const std::string &one, int least, int most) {
  return one + "{" + std::to_string(least) + "," + (most < 0 ? "" : std::to_string(most)) + "}";
}

std::optional<std::string> leaf(const common_peg_arena &arena, common_peg_parser_id id) {
  const auto &parser = arena.get(id);
  if (const auto *literal = std::get_if<common_peg_literal_parser>(&parser))
    return literal->literal.empty() ? "" : schema::literal(literal->literal);
  if (const auto *until = std::get_if<common_peg_until_parser>(&parser))
    return until->delimiters.empty() ? ".*" : "until-" + std::to_string(id);
  if (std::holds_alternative<common_peg_ac_parser>(parser)) return "ac-" + std::to_string(id);
  if (std::holds_alternative<common_peg_space_parser>(parser)) return "space";
  if (std::holds_alternative<common_peg_any_parser>(parser)) return ".";
  if (const auto *chars = std::get_if<common_peg_chars_parser>(&parser))
    return repeat(chars->pattern, chars->min_count, chars->max_count);
  if (const auto *gbnf = std::get_if<common_peg_gbnf_parser>(&parser)) return gbnf->grammar;
  const bool is_nothing = std::holds_alternative<common_peg_epsilon_parser>(parser) ||
                          std::holds_alternative<common_peg_start_parser>(parser) ||
                          std::holds_alternative<common_peg_end_parser>(parser) ||
                          std::holds_alternative<common_peg_and_parser>(parser) ||
                          std::holds_alternative<common_peg_not_parser>(parser);
  return is_nothing ? std::optional<std::string>("") : std::nullopt;
}

std::optional<common_peg_parser_id> inside(const common_peg_arena &arena,
                                           common_peg_parser_id id) {
  const auto &parser = arena.get(id);
  if (const auto *tag = std::get_if<common_peg_tag_parser>(&parser)) return tag->child;
  if (const auto *atomic = std::get_if<common_peg_atomic_parser>(&parser)) return atomic->child;
  if (const auto *rule = std::get_if<common_peg_rule_parser>(&parser)) return rule->child;
  if (const auto *ref = std::get_if<common_peg_ref_parser>(&parser))
    return arena.get_rule(ref->name);
  return std::nullopt;
}

std::pair<size_t, size_t> find_rule(const std::string &grammar, const std::string &name) {
  const std::string head = name + " ::= ";
  size_t at = grammar.compare(0, head.size(), head) == 0 ? 0 : grammar.find("\n" + head);
  if (at == std::string::npos) return {at, at};
  at += head.size() + (at == 0 && grammar[0] != '\n' ? 0 : 1);
  return {at, std::min(grammar.find('\n', at), grammar.size())};
}

} // namespace recua::format
