// JSON schema → nodes. Which keywords mean what follows llama.cpp's reader; keywords that it drops are enforced here where a grammar
// can, and listed where it cannot. References are read from a queue, so that recursion is as deep as the schema is nested.
#include "schema.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>

namespace recua::schema {

namespace {

constexpr size_t most_references = 1000;
constexpr size_t longest_name = 1000;      // bytes of a property
constexpr size_t longest_pointer = 4000;   // of all names on the way to a schema
constexpr size_t most_values = 10'000;     // of one enum
constexpr int most_depth = 200;
constexpr int most_count = 1'000'000;

using Node = common_chat_schema_ptr;

// Which values an assertion is about; it says nothing of others.
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

[[noreturn]] void fail(const std::string &pointer, const std::string &message) { throw Refusal(pointer, message); }

std::string type_of(const common_json &value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "boolean";
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return std::floor(value.get<double>()) == value.get<double>() ? "integer" : "number";
  if (value.is_string()) return "string";
  return value.is_array() ? "array" : "object";
}

class Reader {
public:
  Reader(const common_json &root, common_chat_schema_document &document, Budget &budget, std::vector<Loss> *losses)
      : root(root), document(document), budget(budget), losses(losses) {}

  void read_all() {
    // A schema that is only a reference is what it refers to: who reads a tool's parameters looks for its properties.
    Part start = follow({&root, ""});
    document.root = read(*start.schema, start.pointer, 0);
    while (!queue.empty()) {
      const std::string pointer = queue.front();
      queue.pop_front();
      const Part target = follow({find(pointer, pointer), pointer});
      document.refs["#" + pointer] = read(*target.schema, target.pointer, 0);
    }
    for (common_chat_schema_ref *node : pending) node->target = document.refs.at(node->ref).get();
    refuse_circles();
  }

private:
  // --- References

  // The schema at a JSON pointer of the document. `where` is who asks.
  const common_json *find(const std::string &pointer, const std::string &where) {
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

  static std::string shorten(const std::string &text) { return text.size() > 100 ? text.substr(0, 100) + "…" : text; }

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

  static bool asserts_beside(const common_json &schema, const std::string &keyword) {
    for (const auto &entry : schema.items()) {
      if (entry.key() != keyword && !is_annotation(entry.key())) return true;
    }
    return false;
  }

  // To what a schema stands for that says nothing itself.
  Part follow(Part part) {
    std::set<std::string> seen;
    while (part.schema->is_object() && part.schema->contains("$ref") && !asserts_beside(*part.schema, "$ref")) {
      budget.step(part.schema->size());
      const std::string pointer = pointer_of(*part.schema, part.pointer);
      if (!seen.insert(pointer).second) fail(part.pointer + "/$ref", "The schema refers to itself in a circle and says nothing else.");
      part = {find(pointer, part.pointer), pointer};
    }
    return part;
  }

  Node reference(const common_json &schema, const std::string &pointer) {
    const std::string target = pointer_of(schema, pointer);
    const std::string name = "#" + target;
    if (document.refs.emplace(name, nullptr).second) {
      if (document.refs.size() > most_references) fail(pointer + "/$ref", "Expected references to at most " + std::to_string(most_references) + " parts of the schema, got more.");
      find(target, pointer);
      queue.push_back(target);
    }
    auto node = std::make_unique<common_chat_schema_ref>(name);
    pending.push_back(node.get());
    return node;
  }

  // A grammar cannot begin with itself: what a reference leads to without a character in between must not be where it began.
  void refuse_circles() {
    std::map<const common_chat_schema *, int> state; // 1 while it is looked into, 2 behind it
    for (const auto &[name, target] : document.refs) {
      std::vector<std::pair<const common_chat_schema *, bool>> todo{{target.get(), false}};
      while (!todo.empty()) {
        const auto [node, done] = todo.back();
        todo.pop_back();
        budget.step();
        if (done) {
          state[node] = 2;
          continue;
        }
        if (state[node] == 2) continue;
        if (state[node] == 1) fail(name.substr(1), "The schema refers to itself in a circle, with no value in between.");
        state[node] = 1;
        todo.emplace_back(node, true);
        if (node->kind() == common_chat_schema::KIND_REF) {
          const auto *next = static_cast<const common_chat_schema_ref *>(node)->target;
          if (state[next] == 1) fail(name.substr(1), "The schema refers to itself in a circle, with no value in between.");
          todo.emplace_back(next, false);
        } else if (node->kind() == common_chat_schema::KIND_ANY_OF) {
          for (const auto &child : static_cast<const common_chat_schema_any_of *>(node)->children) todo.emplace_back(child.get(), false);
        }
      }
    }
  }

  // --- Schemas that follow several

  // What allOf and $ref say beside each other, as a flat list.
  void collect(const Part &part, std::vector<Part> &parts, std::set<std::string> &seen) {
    budget.step();
    if (!part.schema->is_object()) {
      if (part.schema->is_boolean() && part.schema->get<bool>()) return;
      fail(part.pointer, "Expected a schema, an object, got " + shorten(part.schema->dump()) + ".");
    }
    const bool refers = part.schema->contains("$ref"), joins = part.schema->contains("allOf");
    if ((refers || joins) && asserts_beside_both(*part.schema)) {
      own.push_back(std::make_unique<common_json>(*part.schema));
      if (refers) own.back()->erase("$ref");
      if (joins) own.back()->erase("allOf");
      parts.push_back({own.back().get(), part.pointer});
    }
    if (refers) {
      const std::string pointer = pointer_of(*part.schema, part.pointer);
      if (!seen.insert(pointer).second) fail(part.pointer + "/$ref", "The schema refers to itself in a circle.");
      collect({find(pointer, part.pointer), pointer}, parts, seen);
      seen.erase(pointer);
    }
    if (joins) {
      const common_json &all = part.schema->at("allOf");
      if (!all.is_array() || all.empty()) fail(part.pointer + "/allOf", "Expected an array of schemas that is not empty.");
      size_t i = 0;
      for (const auto &one : all) collect({&one, part.pointer + "/allOf/" + std::to_string(i++)}, parts, seen);
    }
    if (!refers && !joins) parts.push_back(part);
  }

  static bool asserts_beside_both(const common_json &schema) {
    for (const auto &entry : schema.items()) {
      if (entry.key() != "$ref" && entry.key() != "allOf" && !is_annotation(entry.key())) return true;
    }
    return false;
  }

  Node read_joined(const common_json &schema, const std::string &pointer, int depth) {
    std::vector<Part> parts;
    std::set<std::string> seen;
    collect({&schema, pointer}, parts, seen);
    if (parts.empty()) return std::make_unique<common_chat_schema_any>();
    if (parts.size() == 1) return read(*parts[0].schema, parts[0].pointer, depth + 1);
    const common_json merged = merge(parts, budget, losses);
    return read(merged, pointer, depth + 1);
  }

  Node read_alternatives(const common_json &schema, const std::string &keyword, const std::string &pointer, int depth) {
    const common_json &all = schema.at(keyword);
    const std::string place = pointer + "/" + keyword;
    if (!all.is_array() || all.empty()) fail(place, "Expected an array of schemas that is not empty.");
    auto node = std::make_unique<common_chat_schema_any_of>();
    common_json beside = common_json::object();
    for (const auto &[name, value] : schema.items()) {
      if (name != keyword && !is_annotation(name)) beside[name] = value;
    }
    budget.step(beside.size() * all.size());
    size_t i = 0;
    std::vector<std::set<std::string>> types;
    for (const auto &alternative : all) {
      const std::string way = place + "/" + std::to_string(i++);
      if (alternative.is_boolean() && !alternative.get<bool>()) continue;
      if (beside.empty()) {
        node->children.push_back(read(alternative, way, depth + 1));
      } else {
        common_json both = common_json::object();
        auto list = common_json::array();
        list.push_back(beside);
        list.push_back(alternative);
        both["allOf"] = list;
        node->children.push_back(read_joined_pair(both, pointer, way, depth));
      }
    }
    if (node->children.empty()) fail(place, "No value follows this: all alternatives are false.");
    if (keyword == "oneOf" && node->children.size() > 1 && !apart(all)) lose(place, "it is taken as anyOf: a value may follow several of the alternatives");
    return node;
  }

  Node read_joined_pair(const common_json &both, const std::string &pointer, const std::string &way, int depth) {
    std::vector<Part> parts;
    std::set<std::string> seen;
    const common_json &list = both.at("allOf");
    collect({&list.at(static_cast<size_t>(0)), pointer}, parts, seen);
    collect({&list.at(static_cast<size_t>(1)), way}, parts, seen);
    const common_json merged = merge(parts, budget, losses);
    return read(merged, way, depth + 1);
  }

  // Whether no value can follow two of the schemas, as far as that is easy to see: other types, or another constant.
  bool apart(const common_json &all) {
    std::vector<const common_json *> list;
    for (const auto &one : all) list.push_back(follow({&one, ""}).schema);
    budget.step(list.size() * list.size());
    for (size_t i = 0; i < list.size(); i++) {
      for (size_t j = 0; j < i; j++) {
        if (!apart(*list[i], *list[j], 0)) return false;
      }
    }
    return true;
  }

  static std::vector<common_json> constants(const common_json &schema) {
    std::vector<common_json> values;
    if (schema.contains("const")) values.push_back(schema.at("const"));
    else if (schema.contains("enum") && schema.at("enum").size() < 100) {
      for (const auto &value : schema.at("enum")) values.push_back(value);
    }
    return values;
  }

  bool apart(const common_json &a, const common_json &b, int depth) {
    budget.step();
    if (!a.is_object() || !b.is_object()) return false;
    const auto one = constants(a), other = constants(b);
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
    // Objects that need the same property with other constants.
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
      if (has(a) && has(b) && apart(a.at("properties").at(key), b.at("properties").at(key), depth + 1)) return true;
    }
    return false;
  }

  // --- One schema

  void lose(const std::string &pointer, const std::string &why) {
    if (losses == nullptr) return;
    const bool known = std::any_of(losses->begin(), losses->end(), [&](const Loss &loss) { return loss.pointer == pointer; });
    if (!known && losses->size() < 100) losses->push_back({pointer, why});
  }

  Node read(const common_json &schema, const std::string &pointer, int depth) {
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) fail(pointer, "No value follows the schema false.");
      return std::make_unique<common_chat_schema_any>();
    }
    if (!schema.is_object()) fail(pointer, "Expected a schema, an object, got " + shorten(schema.dump()) + ".");
    budget.step(1 + schema.size() + pointer.size() / 64);
    if (pointer.size() > longest_pointer) fail("", "Expected a schema whose names on the way to each part have at most " + std::to_string(longest_pointer) + " bytes together.");
    if (depth > most_depth) fail(pointer, "The schema is nested too deeply, or joins itself without end.");
    const bool refers = schema.contains("$ref");
    if (refers && !asserts_beside(schema, "$ref")) return reference(schema, pointer);
    if (refers || schema.contains("allOf")) return read_joined(schema, pointer, depth);
    if (schema.contains("oneOf")) return read_alternatives(schema, "oneOf", pointer, depth);
    if (schema.contains("anyOf")) return read_alternatives(schema, "anyOf", pointer, depth);
    for (const auto &entry : schema.items()) {
      const std::string keyword = entry.key();
      if (keyword == "type" || keyword == "enum" || keyword == "const" || is_annotation(keyword) || assertions().count(keyword) > 0) continue;
      lose(pointer + "/" + escaped(keyword), "it is not known");
    }
    return read_types(schema, pointer, depth);
  }

  Node read_types(const common_json &schema, const std::string &pointer, int depth) {
    std::vector<std::string> types;
    if (schema.contains("type")) {
      const common_json &given = schema.at("type");
      const auto add = [&](const common_json &type, const std::string &where) {
        static const std::set<std::string> known = {"object", "array", "string", "number", "integer", "boolean", "null"};
        const std::string name = type.is_string() ? type.get<std::string>() : "";
        if (known.count(name) == 0) fail(where, "Expected \"object\", \"array\", \"string\", \"number\", \"integer\", \"boolean\" or \"null\" as a type, got " + shorten(type.dump()) + ".");
        if (std::find(types.begin(), types.end(), name) == types.end()) types.push_back(name);
      };
      if (!given.is_array()) add(given, pointer + "/type");
      else {
        size_t i = 0;
        for (const auto &type : given) add(type, pointer + "/type/" + std::to_string(i++));
        if (types.empty()) fail(pointer + "/type", "Expected at least one type.");
      }
    }
    if (schema.contains("const") || schema.contains("enum")) return read_values(schema, types, pointer);
    if (types.empty()) types.push_back(guess(schema));
    if (types.size() == 1) return read_type(schema, types[0], pointer, depth);
    auto node = std::make_unique<common_chat_schema_any_of>();
    for (const auto &type : types) node->children.push_back(read_type(schema, type, pointer, depth));
    return node;
  }

  // Without a type the keywords say what is meant; '' is any value.
  static std::string guess(const common_json &schema) {
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

  Node read_values(const common_json &schema, const std::vector<std::string> &types, const std::string &pointer) {
    std::vector<common_json> values;
    const auto fits = [&](const common_json &value) {
      const std::string type = type_of(value);
      return types.empty() || std::any_of(types.begin(), types.end(), [&](const std::string &one) { return one == type || (one == "number" && type == "integer"); });
    };
    const bool single = schema.contains("const");
    if (schema.contains("enum")) {
      const common_json &list = schema.at("enum");
      if (!list.is_array() || list.empty()) fail(pointer + "/enum", "Expected an array of values that is not empty.");
      if (list.size() > most_values) fail(pointer + "/enum", "Expected at most " + std::to_string(most_values) + " values, got " + std::to_string(list.size()) + ".");
      budget.step(list.size());
      for (const auto &value : list) {
        if (fits(value) && (!single || value == schema.at("const"))) values.push_back(value);
      }
    } else if (fits(schema.at("const"))) {
      values.push_back(schema.at("const"));
    }
    if (values.empty()) fail(pointer + (schema.contains("enum") ? "/enum" : "/const"), "None of the values is of the type that is asked for.");
    for (const auto &entry : schema.items()) {
      const auto about = assertions().find(entry.key());
      if (about == assertions().end()) continue;
      const bool matters = std::any_of(values.begin(), values.end(), [&](const common_json &value) {
        const std::string type = type_of(value);
        return type == about->second || (type == "integer" && about->second == "number");
      });
      if (matters) lose(pointer + "/" + entry.key(), std::string("it stands beside ") + (single ? "const" : "enum"));
    }
    if (values.size() == 1 && single) return std::make_unique<common_chat_schema_const>(values[0]);
    auto node = std::make_unique<common_chat_schema_enum>();
    node->values = std::move(values);
    return node;
  }

  Node read_type(const common_json &schema, const std::string &type, const std::string &pointer, int depth) {
    if (type == "object") return read_object(schema, pointer, depth);
    if (type == "array") return read_array(schema, pointer, depth);
    if (type == "string") return read_text(schema, pointer);
    if (type == "integer") return read_integer(schema, pointer);
    if (type == "number") return read_number(schema, pointer);
    if (type == "boolean") return std::make_unique<common_chat_schema_boolean>();
    if (type == "null") return std::make_unique<common_chat_schema_null>();
    return std::make_unique<common_chat_schema_any>();
  }

  int count(const common_json &schema, const char *keyword, const std::string &pointer, int missing) {
    if (!schema.contains(keyword)) return missing;
    const common_json &value = schema.at(keyword);
    const double number = value.is_number() ? value.get<double>() : -1;
    if (number < 0 || number != std::floor(number)) fail(pointer + "/" + keyword, "Expected a whole number of at least 0, got " + shorten(value.dump()) + ".");
    if (number > most_count) {
      if (missing < 0) return missing; // as good as none
      fail(pointer + "/" + keyword, "Expected at most " + std::to_string(most_count) + ", got " + shorten(value.dump()) + ".");
    }
    return static_cast<int>(number);
  }

  void check_order(int min, int max, const char *low, const char *high, const std::string &pointer) {
    if (max < 0 || min <= max) return;
    fail(pointer + "/" + low, std::string("No value follows this: ") + low + " is " + std::to_string(min) + " and " + high + " is " + std::to_string(max) + ".");
  }

  Node read_text(const common_json &schema, const std::string &pointer) {
    auto node = std::make_unique<Text>();
    node->min_length = count(schema, "minLength", pointer, 0);
    node->max_length = count(schema, "maxLength", pointer, -1);
    check_order(node->min_length, node->max_length, "minLength", "maxLength", pointer);
    const auto text = [&](const char *keyword) -> std::string {
      if (!schema.contains(keyword)) return "";
      if (!schema.at(keyword).is_string()) fail(pointer + "/" + keyword, "Expected a string.");
      return schema.at(keyword).get<std::string>();
    };
    const std::string pattern = text("pattern"), format = text("format");
    const char *by_format = format_pattern(format);
    if (format == "date") node->format = common_chat_schema::FORMAT_DATE;
    else if (format == "time") node->format = common_chat_schema::FORMAT_TIME;
    else if (format == "date-time") node->format = common_chat_schema::FORMAT_DATE_TIME;
    else if (format == "uuid" || (format.size() == 5 && format.compare(0, 4, "uuid") == 0 && format[4] >= '1' && format[4] <= '5')) node->format = common_chat_schema::FORMAT_UUID;
    else if (by_format == nullptr && !format.empty()) lose(pointer + "/format", "the format is not known");
    if (!pattern.empty() && follows(pattern, pointer)) {
      node->follows = node->pattern = pattern;
      if (node->format != common_chat_schema::FORMAT_NONE || by_format != nullptr) lose(pointer + "/format", "it stands beside a pattern");
      node->format = common_chat_schema::FORMAT_NONE;
    } else if (by_format != nullptr) {
      node->follows = by_format;
    }
    if (!node->follows.empty() || node->format != common_chat_schema::FORMAT_NONE) {
      const std::string beside = !node->pattern.empty() ? "it stands beside a pattern" : "it stands beside a format";
      if (node->min_length > 0) lose(pointer + "/minLength", beside);
      if (node->max_length >= 0) lose(pointer + "/maxLength", beside);
    }
    return node;
  }

  bool follows(const std::string &pattern, const std::string &pointer) {
    if (pattern.size() > longest_pointer) fail(pointer + "/pattern", "Expected a pattern of at most " + std::to_string(longest_pointer) + " bytes, got " + std::to_string(pattern.size()) + ".");
    try {
      pattern_expression(pattern, budget, [](const std::string &) { return std::string("part"); });
      return true;
    } catch (const InvalidPattern &error) {
      fail(pointer + "/pattern", "Expected a regular expression, got " + shorten(pattern) + ": " + error.what() + ".");
    } catch (const Refusal &) {
      throw;
    } catch (const std::runtime_error &error) {
      lose(pointer + "/pattern", error.what());
      return false;
    }
  }

  Bounds bounds(const common_json &schema, const std::string &pointer) {
    Bounds found;
    const auto read_bound = [&](const char *keyword, bool excludes, std::optional<Decimal> &bound, bool &excluded, int sign) {
      if (!schema.contains(keyword)) return;
      const common_json &value = schema.at(keyword);
      if (value.is_boolean()) return; // as drafts before 6 had it: it says how to take the other one
      if (!value.is_number()) fail(pointer + "/" + keyword, "Expected a number, got " + shorten(value.dump()) + ".");
      const auto number = exact(value);
      if (!number) {
        const double given = value.get<double>();
        if (std::abs(given) > 1 && (given > 0) == (sign > 0)) return; // no number that is ever written comes near
        fail(pointer + "/" + keyword, "Expected a number of at most 40 digits before and behind the point, got " + shorten(value.dump()) + ".");
      }
      const int order = bound ? sign * compare(*number, *bound) : -1;
      if (order < 0) excluded = excludes;
      else if (order == 0) excluded = excluded || excludes;
      if (order < 0) bound = number;
    };
    read_bound("minimum", old_style(schema, "exclusiveMinimum"), found.low, found.above_low, -1);
    read_bound("exclusiveMinimum", true, found.low, found.above_low, -1);
    read_bound("maximum", old_style(schema, "exclusiveMaximum"), found.high, found.below_high, 1);
    read_bound("exclusiveMaximum", true, found.high, found.below_high, 1);
    return found;
  }

  static bool old_style(const common_json &schema, const char *keyword) { return schema.contains(keyword) && schema.at(keyword) == true; }

  // Integers over 2^53 come as JavaScript writes them: the digits of the nearest double, filled up with zeros. Its own value is meant,
  // and the one that stands for the largest int64 is that.
  static std::optional<Decimal> exact(const common_json &value) {
    auto number = read_decimal(value);
    if (!number) return number;
    if (number->fraction.empty() && number->whole == "9223372036854776000") {
      number->whole = number->negative ? "9223372036854775808" : "9223372036854775807";
    }
    return number;
  }

  Node read_integer(const common_json &schema, const std::string &pointer) {
    auto node = std::make_unique<Integer>();
    node->bounds = bounds(schema, pointer);
    if (node->bounds.any() && !integer_range(node->bounds)) fail(pointer, "No integer lies within the bounds of the schema.");
    if (!schema.contains("multipleOf")) return node;
    const auto divisor = factor(schema, pointer);
    if (divisor && divisor->fraction.empty() && divisor->whole == "1") return node;
    if (divisor && divisor->fraction.empty() && divisor->whole.size() <= 3 && !node->bounds.any()) node->multiple = static_cast<unsigned>(std::stoul(divisor->whole));
    else lose(pointer + "/multipleOf", node->bounds.any() ? "it stands beside a bound" : "only whole numbers up to 999 can be");
    return node;
  }

  Node read_number(const common_json &schema, const std::string &pointer) {
    const Bounds within = bounds(schema, pointer);
    const auto divisor = schema.contains("multipleOf") ? factor(schema, pointer) : std::nullopt;
    if (divisor && divisor->fraction.empty()) return read_integer(schema, pointer);
    auto node = std::make_unique<Number>();
    node->bounds = within;
    if (within.any() && !number_range(within)) fail(pointer, "No number lies within the bounds of the schema.");
    if (!schema.contains("multipleOf")) return node;
    const bool decimal = divisor && divisor->whole == "0" && divisor->fraction.size() <= 16 && divisor->fraction.back() == '1' && divisor->fraction.find_first_not_of('0') == divisor->fraction.size() - 1;
    if (decimal && !within.any()) node->decimals = static_cast<unsigned>(divisor->fraction.size());
    else lose(pointer + "/multipleOf", within.any() ? "it stands beside a bound" : "only whole numbers and 0.1, 0.01 and so on can be");
    return node;
  }

  std::optional<Decimal> factor(const common_json &schema, const std::string &pointer) {
    const common_json &value = schema.at("multipleOf");
    if (!value.is_number() || value.get<double>() <= 0) fail(pointer + "/multipleOf", "Expected a number over 0, got " + shorten(value.dump()) + ".");
    return read_decimal(value);
  }

  Node read_array(const common_json &schema, const std::string &pointer, int depth) {
    const int min = count(schema, "minItems", pointer, 0);
    int max = count(schema, "maxItems", pointer, -1);
    check_order(min, max, "minItems", "maxItems", pointer);
    for (const char *keyword : {"contains", "minContains", "maxContains", "unevaluatedItems"}) {
      if (schema.contains(keyword)) lose(pointer + "/" + keyword, "a grammar cannot");
    }
    if (schema.contains("uniqueItems") && schema.at("uniqueItems") == true && (max < 0 || max > 1)) lose(pointer + "/uniqueItems", "a grammar cannot compare items");
    const bool old = schema.contains("items") && schema.at("items").is_array();
    const char *first = old ? "items" : "prefixItems";
    const char *others = old ? "additionalItems" : "items";
    if (old || (schema.contains("prefixItems") && schema.at("prefixItems").is_array())) {
      auto node = std::make_unique<Tuple>();
      size_t i = 0;
      for (const auto &item : schema.at(first)) node->items.push_back(read(item, pointer + "/" + first + "/" + std::to_string(i++), depth + 1));
      if (schema.contains(others) && !schema.at(others).is_boolean()) node->rest = read(schema.at(others), pointer + "/" + others, depth + 1);
      else if (min > static_cast<int>(node->items.size())) node->rest = std::make_unique<common_chat_schema_any>();
      node->min_items = min;
      node->max_items = max;
      // The answer has all of the first items, as in llama.cpp: fewer would be allowed, not asked for.
      if (max >= 0 && max < static_cast<int>(node->items.size())) node->items.resize(static_cast<size_t>(max));
      return node;
    }
    auto node = std::make_unique<common_chat_schema_array>();
    const char *each = schema.contains("items") ? "items" : "prefixItems";
    if (schema.contains(each) && schema.at(each).is_boolean() && !schema.at(each).get<bool>()) {
      if (min > 0) fail(pointer + "/minItems", "No value follows this: no item is allowed.");
      max = 0;
      node->items = std::make_unique<common_chat_schema_any>();
    } else {
      node->items = schema.contains(each) ? read(schema.at(each), pointer + "/" + each, depth + 1) : std::make_unique<common_chat_schema_any>();
    }
    node->min_items = min;
    node->max_items = max;
    return node;
  }

  Node read_object(const common_json &schema, const std::string &pointer, int depth) {
    auto node = std::make_unique<common_chat_schema_object>();
    std::set<std::string> required, known;
    std::vector<std::string> required_order;
    if (schema.contains("required")) {
      const common_json &names = schema.at("required");
      if (!names.is_array() && !names.is_boolean()) fail(pointer + "/required", "Expected an array of names.");
      if (names.is_array()) {
        budget.step(names.size());
        for (const auto &name : names) {
          if (!name.is_string()) fail(pointer + "/required", "Expected names of properties, got " + shorten(name.dump()) + ".");
          if (required.insert(name.get<std::string>()).second) required_order.push_back(name.get<std::string>());
        }
      }
    }
    if (schema.contains("properties")) {
      const common_json &properties = schema.at("properties");
      if (!properties.is_object()) fail(pointer + "/properties", "Expected an object of schemas by name.");
      for (const auto &[name, property] : properties.items()) {
        const std::string place = pointer + "/properties/" + escaped(name);
        check_name(name, pointer + "/properties");
        known.insert(name);
        const bool needed = required.count(name) > 0;
        if (property.is_boolean() && !property.get<bool>() && !needed) continue;
        node->properties.push_back({name, read(property, place, depth + 1), needed});
      }
    }
    read_others(schema, *node, pointer, depth);
    for (const auto &name : required_order) {
      if (known.count(name) > 0) continue;
      check_name(name, pointer + "/required");
      if (!node->additional_properties && schema.contains("additionalProperties")) fail(pointer + "/required", "No value follows this: the property " + shorten(name) + " is required and not allowed.");
      const std::string others = pointer + "/additionalProperties";
      const bool any = !schema.contains("additionalProperties") || schema.at("additionalProperties").is_boolean();
      node->properties.push_back({name, any ? std::make_unique<common_chat_schema_any>() : read(schema.at("additionalProperties"), others, depth + 1), true});
    }
    check_object(schema, *node, required.size(), pointer);
    return node;
  }

  void check_name(const std::string &name, const std::string &pointer) {
    if (name.size() > longest_name) fail(pointer, "Expected names of at most " + std::to_string(longest_name) + " bytes, got one of " + std::to_string(name.size()) + ".");
  }

  // What other properties may be there. As in llama.cpp, none where some are listed and nothing is said of others.
  void read_others(const common_json &schema, common_chat_schema_object &node, const std::string &pointer, int depth) {
    if (schema.contains("additionalProperties")) {
      const common_json &others = schema.at("additionalProperties");
      if (!others.is_boolean()) node.additional_properties = read(others, pointer + "/additionalProperties", depth + 1);
      else if (others.get<bool>()) node.additional_properties = std::make_unique<common_chat_schema_any>();
    } else if (!schema.contains("properties")) {
      node.additional_properties = std::make_unique<common_chat_schema_any>();
    }
  }

  void check_object(const common_json &schema, const common_chat_schema_object &node, size_t required, const std::string &pointer) {
    const bool open = node.additional_properties != nullptr;
    const int min = count(schema, "minProperties", pointer, 0), max = count(schema, "maxProperties", pointer, -1);
    check_order(min, max, "minProperties", "maxProperties", pointer);
    if (min > static_cast<int>(required)) lose(pointer + "/minProperties", "a grammar cannot count properties");
    if (max >= 0 && (open || node.properties.size() > static_cast<size_t>(max))) lose(pointer + "/maxProperties", "a grammar cannot count properties");
    if (schema.contains("patternProperties") && !(schema.at("patternProperties").is_object() && schema.at("patternProperties").empty())) lose(pointer + "/patternProperties", "properties are told apart by their whole names");
    for (const char *keyword : {"propertyNames", "unevaluatedProperties"}) {
      if (schema.contains(keyword) && open) lose(pointer + "/" + keyword, "other properties may have any name");
    }
    for (const char *keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
      if (schema.contains(keyword)) lose(pointer + "/" + keyword, "one property cannot depend on another");
    }
  }

  const common_json &root;
  common_chat_schema_document &document;
  Budget &budget;
  std::vector<Loss> *losses;
  std::deque<std::string> queue; // pointers of references that are to be read
  std::vector<common_chat_schema_ref *> pending;
  std::vector<std::unique_ptr<common_json>> own;
};

} // namespace

std::string escaped(const std::string &name) {
  std::string out;
  for (const char c : name) {
    if (c == '~') out += "~0";
    else if (c == '/') out += "~1";
    else out += c;
  }
  return out;
}

common_chat_schema_document read(const common_json &schema, Budget &budget, std::vector<Loss> *losses) {
  common_chat_schema_document document;
  Reader(schema, document, budget, losses).read_all();
  return document;
}

} // namespace recua::schema
