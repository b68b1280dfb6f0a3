// Properties of schemas as JSON: the target of a reference, the types that a schema is about,
// whether two schemas exclude each other.
#include "schema/schema_parts.h"

#include <algorithm>
#include <cmath>

namespace recua::schema {

const std::map<std::string, std::string> &assertions() {
  static const std::map<std::string, std::string> all = {
      {"minLength", "string"}, {"maxLength", "string"}, {"pattern", "string"}, {"format", "string"},
      {"minimum", "number"}, {"maximum", "number"}, {"exclusiveMinimum", "number"}, {"exclusiveMaximum", "number"}, {"multipleOf", "number"},
      {"items", "array"}, {"prefixItems", "array"}, {"additionalItems", "array"}, {"minItems", "array"}, {"maxItems", "array"}, {"uniqueItems", "array"},
      {"contains", "array"}, {"minContains", "array"}, {"maxContains", "array"}, {"unevaluatedItems", "array"},
      {"properties", "object"}, {"required", "object"}, {"additionalProperties", "object"}, {"patternProperties", "object"}, {"propertyNames", "object"},
      {"minProperties", "object"}, {"maxProperties", "object"}, {"dependentRequired", "object"}, {"dependentSchemas", "object"},
      {"dependencies", "object"}, {"unevaluatedProperties", "object"},
  };
  return all;
}

std::string type_of(const common_json &value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "boolean";
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return std::floor(value.get<double>()) == value.get<double>() ? "integer" : "number";
  if (value.is_string()) return "string";
  return value.is_array() ? "array" : "object";
}

bool asserts_beside(const common_json &schema, const std::set<std::string> &keywords) {
  for (const auto &entry : schema.items()) {
    if (keywords.count(entry.key()) == 0 && !is_annotation(entry.key())) return true;
  }
  return false;
}

std::string guess_type(const common_json &schema) {
  for (const char *type : {"object", "array", "string", "number"}) {
    for (const auto &[keyword, about] : assertions()) {
      if (about != type || !schema.contains(keyword)) continue;
      if (keyword == "format" && !schema.at("format").is_string()) continue;
      if (keyword == "required" && !schema.at("required").is_array()) continue;
      if (keyword == "additionalProperties" && schema.at(keyword) == true) continue;
      return type;
    }
  }
  return "";
}

void check_name(const std::string &name, const std::string &pointer) {
  if (name.size() > longest_name) fail(pointer, "Expected names of at most " + std::to_string(longest_name) + " bytes, got one of " + std::to_string(name.size()) + ".");
}

std::string escaped(const std::string &name) {
  std::string out;
  for (const char c : name) {
    if (c == '~') out += "~0";
    else if (c == '/') out += "~1";
    else out += c;
  }
  return out;
}

std::string shorten(const std::string &text) { return text.size() > 100 ? text.substr(0, 100) + "…" : text; }

const common_json *find(const common_json &root, const std::string &pointer, const std::string &where, Budget &budget) {
  const common_json *at = &root;
  size_t from = 1;
  while (from <= pointer.size() && !pointer.empty()) {
    const size_t to = std::min(pointer.find('/', from), pointer.size());
    std::string name;
    for (size_t i = from; i < to; i++) {
      const bool tilde = pointer[i] == '~' && i + 1 < to && (pointer[i + 1] == '0' || pointer[i + 1] == '1');
      name += tilde ? (pointer[++i] == '0' ? '~' : '/') : pointer[i];
    }
    budget.step(1 + at->size() / 16);
    if (at->is_object() && at->contains(name)) {
      at = &at->at(name);
    } else if (at->is_array() && !name.empty() && name.size() < 9 && name.find_first_not_of("0123456789") == std::string::npos && std::stoul(name) < at->size()) {
      at = &at->at(static_cast<size_t>(std::stoul(name)));
    } else {
      fail(where + "/$ref", "Expected $ref to name a part of the schema; it has nothing at #" + shorten(pointer) + ".");
    }
    from = to + 1;
  }
  return at;
}

std::string pointer_of(const common_json &schema, const std::string &pointer) {
  const common_json &value = schema.at("$ref");
  const std::string ref = value.is_string() ? value.get<std::string>() : "";
  if (ref.empty() || ref[0] != '#' || (ref.size() > 1 && ref[1] != '/')) {
    fail(pointer + "/$ref", "Expected $ref to begin with #/, a part of the same schema, got " + shorten(value.dump()) + ".");
  }
  if (ref.size() > longest_pointer) fail(pointer + "/$ref", "Expected a $ref of at most " + std::to_string(longest_pointer) + " bytes, got " + std::to_string(ref.size()) + ".");
  std::string plain;
  for (size_t i = 1; i < ref.size(); i++) {
    const auto hex = [](char c) { return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1; };
    if (ref[i] == '%' && i + 2 < ref.size() && hex(ref[i + 1]) >= 0 && hex(ref[i + 2]) >= 0) {
      plain += static_cast<char>(hex(ref[i + 1]) * 16 + hex(ref[i + 2]));
      i += 2;
    } else {
      plain += ref[i];
    }
  }
  return plain;
}

namespace {

std::vector<common_json> constants(const common_json &schema, Budget &budget) {
  std::vector<common_json> values;
  if (schema.contains("const")) values.push_back(schema.at("const"));
  else if (schema.contains("enum") && schema.at("enum").size() < 100) {
    for (const auto &value : schema.at("enum")) values.push_back(value);
  }
  for (const auto &value : values) budget.step(size_of(value) / 4); // they are copied and compared
  return values;
}

bool apart(const common_json &a, const common_json &b, int depth, Budget &budget) {
  budget.step();
  if (!a.is_object() || !b.is_object()) return false;
  const auto one = constants(a, budget), other = constants(b, budget);
  if (!one.empty() && !other.empty()) {
    budget.step(one.size() * other.size());
    return std::none_of(one.begin(), one.end(), [&](const auto &value) { return std::find(other.begin(), other.end(), value) != other.end(); });
  }
  const auto kinds = [](const common_json &schema, const std::vector<common_json> &values) {
    std::set<std::string> names;
    for (const auto &value : values) names.insert(type_of(value));
    if (!values.empty() || !schema.contains("type")) return names;
    const common_json &type = schema.at("type");
    if (type.is_string()) names.insert(type.get<std::string>());
    else if (type.is_array()) {
      for (const auto &name : type) names.insert(name.is_string() ? name.get<std::string>() : "");
    }
    if (names.count("number") > 0) names.insert("integer");
    return names;
  };
  const auto first = kinds(a, one), second = kinds(b, other);
  if (!first.empty() && !second.empty() && std::none_of(first.begin(), first.end(), [&](const auto &name) { return second.count(name) > 0; })) return true;
  // Objects that require the same property with different constants.
  if (depth > 0 || !a.contains("properties") || !b.contains("properties") || !a.contains("required") || !b.contains("required")) return false;
  for (const auto &name : a.at("required")) {
    if (!name.is_string()) continue;
    const std::string key = name.get<std::string>();
    const auto has = [&](const common_json &schema) {
      budget.step(schema.at("required").size());
      bool needs = false;
      for (const auto &needed : schema.at("required")) needs = needs || needed == name;
      return needs && schema.at("properties").is_object() && schema.at("properties").contains(key);
    };
    if (has(a) && has(b) && apart(a.at("properties").at(key), b.at("properties").at(key), depth + 1, budget)) return true;
  }
  return false;
}

} // namespace

bool apart(const std::vector<const common_json *> &schemas, Budget &budget) {
  budget.step(schemas.size() * schemas.size());
  for (size_t i = 0; i < schemas.size(); i++) {
    for (size_t j = 0; j < i; j++) {
      if (!apart(*schemas[i], *schemas[j], 0, budget)) return false;
    }
  }
  return true;
}

} // namespace recua::schema
