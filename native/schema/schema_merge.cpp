// Merges schemas that all apply to a value into one: allOf, and keywords next to $ref or anyOf.
#include "schema/schema_parts.h"

#include <algorithm>
#include <set>

namespace recua::schema {

bool is_annotation(const std::string &keyword) {
  static const std::set<std::string> known = {
      "title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema", "$id", "$anchor",
      "$vocabulary", "$defs", "definitions", "discriminator", "externalDocs", "xml", "contentEncoding", "contentMediaType", "contentSchema",
      // From editors, forms and other services.
      "propertyOrdering", "enumNames", "enumDescriptions", "markdownDescription", "order"};
  return known.count(keyword) > 0 || keyword.compare(0, 2, "x-") == 0;
}

size_t size_of(const common_json &value) {
  size_t size = 1;
  if (value.is_object() || value.is_array()) {
    for (const auto &entry : value.items()) size += 1 + entry.key().size() / 64 + size_of(entry.value());
  } else if (value.is_string()) {
    size += value.get<std::string>().size() / 64;
  }
  return size;
}

namespace {

std::set<std::string> names_of(const common_json &types) {
  std::set<std::string> names;
  if (types.is_string()) names.insert(types.get<std::string>());
  if (types.is_array()) {
    for (const auto &type : types) {
      if (type.is_string()) names.insert(type.get<std::string>());
    }
  }
  return names;
}

common_json both_types(const common_json &a, const common_json &b, const std::string &pointer) {
  const auto first = names_of(a), second = names_of(b);
  auto both = common_json::array();
  for (const auto &name : first) {
    if (second.count(name) > 0 || (name == "integer" && second.count("number") > 0)) both.push_back(name);
    else if (name == "number" && second.count("integer") > 0) both.push_back("integer");
  }
  if (both.empty()) throw Contradiction(pointer, "No value has all the types that are required together.");
  if (both.size() == 1) return both.at(static_cast<size_t>(0));
  return both;
}

// Adds `other` to `schema`, so that both apply. Without nesting: a copy would recurse that deeply.
void join(common_json &schema, const common_json &other) {
  // No value matches both.
  if (schema == false) return;
  if (other == false) {
    schema = other;
    return;
  }
  const bool is_list = schema.is_object() && schema.size() == 1 && schema.contains("allOf") && schema.at("allOf").is_array() && !schema.at("allOf").empty();
  if (!is_list) {
    auto parts = common_json::array();
    parts.push_back(schema);
    common_json list = common_json::object();
    list["allOf"] = parts;
    schema = list;
  }
  schema["allOf"].push_back(other);
}

class Merger {
public:
  Merger(Budget &budget, const Losses &losses) : budget(budget), losses(losses) {}

  void add(const Part &part) {
    for (const auto &[keyword, value] : part.schema->items()) {
      // Each keyword is looked for among those before it.
      budget.step(1 + size_of(value) + merged.size() / 64);
      if (!is_annotation(keyword)) add(keyword, value, part.pointer + "/" + keyword);
    }
  }

  common_json merged = common_json::object();

private:
  void add(const std::string &keyword, const common_json &value, const std::string &pointer) {
    if (keyword == "const") {
      auto values = common_json::array();
      values.push_back(value);
      return add("enum", values, pointer);
    }
    if (!merged.contains(keyword)) {
      merged[keyword] = value;
      return;
    }
    // Changed in place: a copy for each of many parts would take long.
    common_json &known = merged.at(keyword);
    if (known == value) return;
    if (keyword == "type") {
      known = both_types(known, value, pointer);
    } else if (keyword == "properties" && known.is_object() && value.is_object()) {
      for (const auto &[name, schema] : value.items()) {
        budget.step(1 + known.size());
        if (!known.contains(name)) known[name] = schema;
        else if (known.at(name) != schema) join(known[name], schema);
      }
    } else if (keyword == "required" && known.is_array() && value.is_array()) {
      known.insert(value);
    } else if (keyword == "enum" && known.is_array() && value.is_array()) {
      auto both = common_json::array();
      budget.step(known.size() * value.size());
      for (const auto &one : known) {
        for (const auto &other : value) {
          if (one == other) {
            both.push_back(one);
            break;
          }
        }
      }
      if (both.empty()) throw Contradiction(pointer, "No value is in all of the enums that must apply together.");
      known = both;
    } else if (is_one_of(keyword, {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"}) && known.is_number() && value.is_number()) {
      if (greater(value, known)) known = value;
    } else if (is_one_of(keyword, {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"}) && known.is_number() && value.is_number()) {
      if (greater(known, value)) known = value;
    } else if (is_one_of(keyword, {"items", "additionalProperties"}) && known.is_object() && value.is_object()) {
      join(known, value);
    } else if (keyword == "additionalProperties" && (value.is_boolean() || known.is_boolean())) {
      // The narrower one wins: false, then a schema, then true.
      if ((value.is_boolean() && !value.get<bool>()) || (known.is_boolean() && known.get<bool>())) known = value;
    } else {
      losses.add(pointer, "it is combined with another " + keyword);
    }
  }

  static bool is_one_of(const std::string &keyword, std::initializer_list<const char *> list) {
    return std::any_of(list.begin(), list.end(), [&](const char *one) { return keyword == one; });
  }

  static bool greater(const common_json &a, const common_json &b) {
    const auto one = read_decimal(a), other = read_decimal(b);
    return one && other ? compare(*one, *other) > 0 : a.get<double>() > b.get<double>();
  }

  Budget &budget;
  const Losses &losses;
};

// Whether the merged schema lists something in `list` that this part does not, but would hold to
// its schema of all others.
bool adds_to(const Part &part, const common_json &merged, const char *list, const char *others, Budget &budget) {
  const common_json &schema = *part.schema;
  if (!schema.contains(others) || schema.at(others) == true || schema.at(others) == common_json::object()) return false;
  if (!merged.contains(list)) return false;
  const common_json &listed = merged.at(list);
  if (!schema.contains(list)) return (listed.is_object() || listed.is_array()) && !listed.empty();
  if (!listed.is_object()) return false; // two lists of items cannot be combined, which is listed
  for (const auto &entry : listed.items()) {
    budget.step(1 + schema.size());
    if (!schema.at(list).contains(entry.key())) return true;
  }
  return false;
}

} // namespace

common_json merge(const std::vector<Part> &parts, Budget &budget, const Losses &losses) {
  Merger merger(budget, losses);
  for (const Part &part : parts) merger.add(part);
  for (const Part &part : parts) {
    if (adds_to(part, merger.merged, "properties", "additionalProperties", budget)) losses.add(part.pointer + "/additionalProperties", "another part of the schema adds properties");
    if (adds_to(part, merger.merged, "prefixItems", "items", budget)) losses.add(part.pointer + "/items", "another part of the schema adds prefixItems");
  }
  return std::move(merger.merged);
}

} // namespace recua::schema
