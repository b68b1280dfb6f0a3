// Answers the questions that llama.cpp's chat parsers ask about a schema's nodes. llama.cpp follows
// every path through the references anew, and there may be astronomically many. So the same walk is
// counted here first.
#include "schema/schema.h"

#include <algorithm>
#include <unordered_set>

namespace recua::schema {

namespace {

using Visited = std::unordered_set<const common_chat_schema *>;

bool is_constrained(const Text &text) {
  return !text.follows.empty() || text.format != common_chat_schema::FORMAT_NONE || text.min_length > 0 || text.max_length >= 0;
}

// Walks like common_chat_schema::value_types. Sets `texts` if it meets a string that is not just
// any string.
void walk(const common_chat_schema &node, Budget &budget, Visited &visited, bool &texts) {
  budget.step();
  switch (node.kind()) {
    case common_chat_schema::KIND_STRING: texts = texts || is_constrained(static_cast<const Text &>(node)); break;
    case common_chat_schema::KIND_CONST: texts = texts || static_cast<const common_chat_schema_const &>(node).value.is_string(); break;
    case common_chat_schema::KIND_ENUM: {
      const auto &values = static_cast<const common_chat_schema_enum &>(node).values;
      budget.step(values.size() / 16);
      texts = texts || std::any_of(values.begin(), values.end(), [](const auto &value) { return value.is_string(); });
      break;
    }
    case common_chat_schema::KIND_ANY_OF:
      for (const auto &child : static_cast<const common_chat_schema_any_of &>(node).children) walk(*child, budget, visited, texts);
      break;
    case common_chat_schema::KIND_REF: {
      const auto *target = static_cast<const common_chat_schema_ref &>(node).target;
      if (!visited.insert(target).second) break;
      walk(*target, budget, visited, texts);
      visited.erase(target);
      break;
    }
    default: break;
  }
}

void walk_properties(const common_chat_schema &node, Budget &budget) {
  Visited visited;
  bool texts = false;
  walk(node, budget, visited, texts);
  switch (node.kind()) {
    case common_chat_schema::KIND_OBJECT:
      for (const auto &property : static_cast<const common_chat_schema_object &>(node).properties) walk_properties(*property.schema, budget);
      break;
    case common_chat_schema::KIND_ARRAY: walk_properties(*static_cast<const common_chat_schema_array &>(node).items, budget); break;
    case common_chat_schema::KIND_ANY_OF:
      for (const auto &child : static_cast<const common_chat_schema_any_of &>(node).children) walk_properties(*child, budget);
      break;
    default: break;
  }
}

} // namespace

void count_walks(const common_chat_schema_document &document, Budget &budget) { walk_properties(*document.root, budget); }

std::vector<std::string> constrained_texts(const common_chat_schema_document &document, Budget &budget) {
  std::vector<std::string> names;
  if (document.root->kind() != common_chat_schema::KIND_OBJECT) return names;
  for (const auto &property : static_cast<const common_chat_schema_object &>(*document.root).properties) {
    Visited visited;
    bool texts = false;
    walk(*property.schema, budget, visited, texts);
    if (texts) names.push_back(property.name);
  }
  return names;
}

std::vector<std::string> constrained_values(const common_chat_schema_document &document) {
  std::vector<std::string> names;
  if (document.root->kind() != common_chat_schema::KIND_OBJECT) return names;
  for (const auto &property : static_cast<const common_chat_schema_object &>(*document.root).properties) {
    if (property.schema->kind() != common_chat_schema::KIND_ANY) names.push_back(property.name);
  }
  return names;
}

bool requires_some(const common_chat_schema_document &document) {
  if (document.root->kind() != common_chat_schema::KIND_OBJECT) return false;
  const auto &properties = static_cast<const common_chat_schema_object &>(*document.root).properties;
  return std::any_of(properties.begin(), properties.end(), [](const auto &property) { return property.required; });
}

} // namespace recua::schema
