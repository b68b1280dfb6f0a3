#include "chat/custom_input.h"

#include "chat/format_rules.h"
#include "rule_name.h"
#include "schema/schema.h"

#include "chat-peg-parser.h"

#include <variant>

namespace recua {

namespace {

// Writes a part of a format's parser as GBNF, with other rules in place of an argument's value.
class PartWriter {
public:
  PartWriter(const common_peg_arena &arena, const std::string &root) : arena(arena), root(root) {}

  // Like common_peg_arena::build_grammar. '' is nothing.
  std::string write(common_peg_parser_id id, int depth = 0) {
    if (depth > format::most_depth) return refuse();
    const auto &parser = arena.get(id);
    const auto below = [&](common_peg_parser_id child) { return write(child, depth + 1); };
    if (const auto *all = std::get_if<common_peg_sequence_parser>(&parser)) {
      std::string made;
      for (const auto child : all->children) {
        const std::string one = below(child);
        if (!one.empty()) made += (made.empty() ? "" : " ") + one;
      }
      return made;
    }
    if (const auto *any = std::get_if<common_peg_choice_parser>(&parser)) {
      std::string made;
      const bool before = placed;
      bool after = false;
      for (const auto child : any->children) {
        placed = before;
        const std::string one = below(child);
        made += (made.empty() ? "" : " | ") + (one.empty() ? "\"\"" : one);
        after = after || placed;
      }
      placed = after;
      return "(" + made + ")";
    }
    if (const auto *tag = std::get_if<common_peg_tag_parser>(&parser)) {
      if (!is_value(*tag)) return below(tag->child);
      placed = true;
      const auto &value = arena.get(tag->child);
      // Where a format writes a text in Python's quotes, write it as JSON does.
      if (std::holds_alternative<common_peg_choice_parser>(value)) {
        quotes = true;
        return "\"\\\"\" " + root + " \"\\\"\"";
      }
      return is_text(tag->child, 0) ? root : refuse();
    }
    if (const auto *atomic = std::get_if<common_peg_atomic_parser>(&parser))
      return below(atomic->child);
    if (const auto *rule = std::get_if<common_peg_rule_parser>(&parser)) {
      if (rule->name == gemma_arguments) return for_gemma();
      return holds_value(id, 0) ? below(rule->child) : rule->name;
    }
    if (const auto *ref = std::get_if<common_peg_ref_parser>(&parser)) {
      if (ref->name == gemma_arguments) return for_gemma();
      return holds_value(id, 0) ? below(arena.get_rule(ref->name)) : ref->name;
    }
    if (const auto *until = std::get_if<common_peg_ac_parser>(&parser)) {
      if (!holds_value(until->child, 0) || until->delimiters.size() != 1)
        return *format::leaf(arena, id);
      placed = true;
      return root + " " + schema::literal(until->delimiters.front());
    }
    if (const auto *repeated = std::get_if<common_peg_repetition_parser>(&parser)) {
      // The input occurs exactly once, whatever the format allows.
      const bool holds = holds_value(repeated->child, 0);
      if (holds && placed && repeated->min_count == 0) return "";
      const std::string one = below(repeated->child);
      if (one.empty() || holds) return one;
      return format::repeat("(" + one + ")", repeated->min_count, repeated->max_count);
    }
    const auto text = format::leaf(arena, id);
    return text ? *text : refuse();
  }

  bool done() const { return placed && known; }
  // Whether the input is written in JSON quotes.
  bool quoted() const { return quotes; }

private:
  static constexpr const char *gemma_arguments = "gemma4-dict";

  static bool is_value(const common_peg_tag_parser &tag) {
    return tag.tag == common_chat_peg_builder::TOOL_ARG_STRING_VALUE ||
           tag.tag == common_chat_peg_builder::TOOL_ARG_VALUE;
  }

  // Gemma's format does not separate names from values.
  std::string for_gemma() {
    placed = true;
    return schema::literal("{input:<|\"|>") + " " + root + " " + schema::literal("<|\"|>}");
  }

  // True for a parser that takes everything up to a mark.
  bool is_text(common_peg_parser_id id, int depth) const {
    if (depth > format::most_depth) return false;
    const auto &parser = arena.get(id);
    if (const auto *rule = std::get_if<common_peg_rule_parser>(&parser))
      return is_text(rule->child, depth + 1);
    if (const auto *ref = std::get_if<common_peg_ref_parser>(&parser))
      return is_text(arena.get_rule(ref->name), depth + 1);
    return std::holds_alternative<common_peg_until_parser>(parser);
  }

  bool holds_value(common_peg_parser_id id, int depth) const {
    if (depth > format::most_depth) return false;
    const auto &parser = arena.get(id);
    const auto below = [&](common_peg_parser_id child) { return holds_value(child, depth + 1); };
    const auto any_below = [&](const std::vector<common_peg_parser_id> &children) {
      for (const auto child : children)
        if (below(child)) return true;
      return false;
    };
    if (const auto *all = std::get_if<common_peg_sequence_parser>(&parser))
      return any_below(all->children);
    if (const auto *any = std::get_if<common_peg_choice_parser>(&parser))
      return any_below(any->children);
    if (const auto *tag = std::get_if<common_peg_tag_parser>(&parser))
      return is_value(*tag) || below(tag->child);
    if (const auto *atomic = std::get_if<common_peg_atomic_parser>(&parser))
      return below(atomic->child);
    if (const auto *rule = std::get_if<common_peg_rule_parser>(&parser)) return below(rule->child);
    if (const auto *ref = std::get_if<common_peg_ref_parser>(&parser))
      return below(arena.get_rule(ref->name));
    if (const auto *until = std::get_if<common_peg_ac_parser>(&parser)) return below(until->child);
    if (const auto *repeated = std::get_if<common_peg_repetition_parser>(&parser))
      return below(repeated->child);
    return false;
  }

  std::string refuse() {
    known = false;
    return "";
  }

  const common_peg_arena &arena;
  const std::string &root;
  bool placed = false;
  bool known = true;
  bool quotes = false;
};

} // namespace

std::string marked_parameters(const CustomInput &input) {
  common_json text = {{"type", "string"}};
  text[schema::mark_of_rules()] = input.root;
  auto properties = common_json::object();
  properties["input"] = text;
  common_json parameters = {{"type", "object"}};
  parameters["properties"] = properties;
  parameters["required"] = common_json::array();
  parameters["required"].push_back("input");
  parameters["additionalProperties"] = false;
  return parameters.dump();
}

bool enforce(const CustomInput &input, const std::string &tool, const common_peg_arena &parser,
             std::string &grammar) {
  // If the grammar contains the argument's schema.
  if (grammar.find(" " + input.root + " \"") != std::string::npos) {
    grammar += (grammar.empty() || grammar.back() == '\n' ? "" : "\n") + input.json;
    return true;
  }
  // Prefer the rule of the whole call, so that the input cannot be left out.
  for (const std::string &of_tool :
       {"tool-" + tool, "kimi-k3-tool-" + tool, "ling3-tool-" + tool, "tool-" + tool + "-arg-input",
        "kimi-k3-arg-" + tool + "-input", "ling3-arg-" + tool + "-input"}) {
    const std::string rule = rule_name(of_tool);
    if (!parser.has_rule(rule)) continue;
    const auto [from, to] = format::find_rule(grammar, rule);
    if (from == std::string::npos) continue;
    const auto &found = parser.get(parser.get_rule(rule));
    const auto *outer = std::get_if<common_peg_rule_parser>(&found);
    if (outer == nullptr) continue;
    PartWriter writer(parser, input.root);
    const std::string made = writer.write(outer->child);
    if (!writer.done()) continue;
    grammar.replace(from, to - from, made);
    grammar += (grammar.back() == '\n' ? "" : "\n") + (writer.quoted() ? input.json : input.plain);
    return true;
  }
  return false;
}

} // namespace recua
