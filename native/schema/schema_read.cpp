// JSON schema → nodes. The meaning of keywords follows llama.cpp's reader; keywords that it drops
// are enforced here if a grammar can do that, and listed if not. References are read from a queue,
// so that recursion is as deep as the schema is nested.
#include "schema/schema_parts.h"

#include <algorithm>
#include <deque>

namespace recua::schema {

namespace {

constexpr size_t most_references = 1000;
constexpr int most_depth = 200;

class Reader {
public:
  Reader(const common_json &root, common_chat_schema_document &document, Budget &budget, std::vector<Loss> *losses)
      : root(root), document(document), budget(budget), losses{losses} {}

  void read_all() {
    // A schema that is just a reference becomes its target, because readers of a tool's parameters
    // look for properties.
    Part start = follow({&root, ""});
    document.root = read(*start.schema, start.pointer, 0);
    while (!queue.empty()) {
      const std::string pointer = queue.front();
      queue.pop_front();
      const Part target = follow({find(root, pointer, pointer, budget), pointer});
      document.refs["#" + pointer] = read(*target.schema, target.pointer, 0);
    }
    for (common_chat_schema_ref *node : pending) node->target = document.refs.at(node->ref).get();
    refuse_circles();
  }

private:
  // --- References

  // Resolves a schema that consists of a reference only.
  Part follow(Part part) {
    std::set<std::string> seen;
    while (part.schema->is_object() && part.schema->contains("$ref") && !asserts_beside(*part.schema, {"$ref"})) {
      budget.step(part.schema->size());
      const std::string pointer = pointer_of(*part.schema, part.pointer);
      if (!seen.insert(pointer).second) fail(part.pointer + "/$ref", "The schema refers to itself in a circle and says nothing else.");
      part = {find(root, pointer, part.pointer, budget), pointer};
    }
    return part;
  }

  Node reference(const common_json &schema, const std::string &pointer) {
    const std::string target = pointer_of(schema, pointer);
    const std::string name = "#" + target;
    if (document.refs.emplace(name, nullptr).second) {
      if (document.refs.size() > most_references) fail(pointer + "/$ref", "Expected references to at most " + std::to_string(most_references) + " parts of the schema, got more.");
      find(root, target, pointer, budget);
      queue.push_back(target);
    }
    return refer(name);
  }

  Node refer(const std::string &name) {
    auto node = std::make_unique<common_chat_schema_ref>(name);
    pending.push_back(node.get());
    return node;
  }

  // A grammar must not begin with itself: a reference must not lead back to its start without a
  // character in between.
  void refuse_circles() {
    std::map<const common_chat_schema *, int> state; // 1: being visited; 2: done
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

  // Flattens allOf and $ref into a list of schemas.
  void collect(const Part &part, std::vector<Part> &parts, std::set<std::string> &seen, int level = 0) {
    budget.step(1 + part.pointer.size() / 64);
    if (level > most_depth) fail(part.pointer, "Expected $ref and allOf to follow each other at most " + std::to_string(most_depth) + " times, got more.");
    if (!part.schema->is_object()) {
      if (part.schema->is_boolean() && part.schema->get<bool>()) return;
      fail(part.pointer, "Expected a schema, an object, got " + shorten(part.schema->dump()) + ".");
    }
    const bool refers = part.schema->contains("$ref"), joins = part.schema->contains("allOf");
    if ((refers || joins) && asserts_beside(*part.schema, {"$ref", "allOf"})) {
      budget.step(size_of(*part.schema));
      own.push_back(std::make_unique<common_json>(*part.schema));
      if (refers) own.back()->erase("$ref");
      if (joins) own.back()->erase("allOf");
      parts.push_back({own.back().get(), part.pointer});
    }
    if (refers) {
      const std::string pointer = pointer_of(*part.schema, part.pointer);
      if (!seen.insert(pointer).second) fail(part.pointer + "/$ref", "The schema refers to itself in a circle.");
      collect({find(root, pointer, part.pointer, budget), pointer}, parts, seen, level + 1);
      seen.erase(pointer);
    }
    if (joins) {
      const common_json &all = part.schema->at("allOf");
      if (!all.is_array() || all.empty()) fail(part.pointer + "/allOf", "Expected a non-empty array of schemas.");
      size_t i = 0;
      for (const auto &one : all) collect({&one, part.pointer + "/allOf/" + std::to_string(i++)}, parts, seen, level + 1);
    }
    if (!refers && !joins) parts.push_back(part);
  }

  Node read_joined(const common_json &schema, const std::string &pointer, int depth) {
    std::vector<Part> parts;
    std::set<std::string> seen;
    collect({&schema, pointer}, parts, seen);
    if (parts.empty()) return std::make_unique<common_chat_schema_any>();
    if (parts.size() == 1) return read_merged(*parts[0].schema, parts[0].pointer, depth);
    return read_merged(merge(parts, budget, losses), pointer, depth);
  }

  // A merged schema may contain itself, like a tree's; inside is a reference to a copy of its own.
  Node read_merged(const common_json &schema, const std::string &pointer, int depth) {
    const std::string text = schema.dump();
    budget.step(1 + text.size() / 64);
    const auto [name, fresh] = merged.emplace(text, "#merged-" + std::to_string(merges++));
    if (!fresh) return refer(document.refs.emplace(name->second, nullptr).first->first);
    Node node = read(schema, pointer, depth + 1);
    if (document.refs.count(name->second) > 0) {
      document.refs[name->second] = std::move(node);
      return read(schema, pointer, depth + 1);
    }
    merged.erase(name);
    return node;
  }

  Node read_alternatives(const common_json &schema, const std::string &keyword, const std::string &pointer, int depth) {
    const common_json &all = schema.at(keyword);
    const std::string place = pointer + "/" + keyword;
    if (!all.is_array() || all.empty()) fail(place, "Expected a non-empty array of schemas.");
    auto node = std::make_unique<common_chat_schema_any_of>();
    common_json beside = common_json::object();
    for (const auto &[name, value] : schema.items()) {
      if (name != keyword && !is_annotation(name)) beside[name] = value;
    }
    budget.step(beside.size() * all.size());
    size_t i = 0;
    for (const auto &alternative : all) {
      const std::string way = place + "/" + std::to_string(i++);
      if (alternative.is_boolean() && !alternative.get<bool>()) continue;
      if (beside.empty()) {
        node->children.push_back(read(alternative, way, depth + 1));
        continue;
      }
      std::vector<Part> parts;
      std::set<std::string> seen;
      collect({&beside, pointer}, parts, seen);
      collect({&alternative, way}, parts, seen);
      common_json both;
      try {
        both = merge(parts, budget, losses);
      } catch (const Contradiction &) {
        // No value matches this alternative.
        if (i == all.size() && node->children.empty()) throw;
        continue;
      }
      node->children.push_back(read_merged(both, way, depth));
    }
    if (node->children.empty()) fail(place, "No value matches: all alternatives are false.");
    if (keyword == "oneOf" && node->children.size() > 1 && !apart(followed(all), budget)) losses.add(place, "it is treated as anyOf: a value may match several alternatives");
    return node;
  }

  std::vector<const common_json *> followed(const common_json &all) {
    std::vector<const common_json *> list;
    for (const auto &one : all) list.push_back(follow({&one, ""}).schema);
    return list;
  }

  // --- One schema

  Node read(const common_json &schema, const std::string &pointer, int depth) {
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) fail(pointer, "No value matches the schema false.");
      return std::make_unique<common_chat_schema_any>();
    }
    if (!schema.is_object()) fail(pointer, "Expected a schema, an object, got " + shorten(schema.dump()) + ".");
    budget.step(1 + schema.size() + pointer.size() / 64);
    if (pointer.size() > longest_pointer) fail("", "Expected a schema in which the path to each part has at most " + std::to_string(longest_pointer) + " bytes.");
    if (depth > most_depth) fail(pointer, "The schema is nested too deeply, or merges with itself without end.");
    if (schema.contains(mark_of_rules())) {
      auto text = std::make_unique<Text>();
      text->rules = schema.at(mark_of_rules()).get<std::string>();
      return text;
    }
    const bool refers = schema.contains("$ref");
    if (refers && !asserts_beside(schema, {"$ref"})) return reference(schema, pointer);
    if (refers || schema.contains("allOf")) return read_joined(schema, pointer, depth);
    if (schema.contains("oneOf")) return read_alternatives(schema, "oneOf", pointer, depth);
    if (schema.contains("anyOf")) return read_alternatives(schema, "anyOf", pointer, depth);
    for (const auto &entry : schema.items()) {
      const std::string keyword = entry.key();
      if (keyword == "type" || keyword == "enum" || keyword == "const" || is_annotation(keyword) || assertions().count(keyword) > 0) continue;
      losses.add(pointer + "/" + escaped(keyword), "the keyword is unknown");
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
    if (schema.contains("const") || schema.contains("enum")) return read_values(schema, types, pointer, budget, losses);
    if (types.empty()) types.push_back(guess_type(schema));
    if (types.size() == 1) return read_type(schema, types[0], pointer, depth);
    auto node = std::make_unique<common_chat_schema_any_of>();
    for (const auto &type : types) node->children.push_back(read_type(schema, type, pointer, depth));
    return node;
  }

  Node read_type(const common_json &schema, const std::string &type, const std::string &pointer, int depth) {
    if (type == "object") return read_object(schema, pointer, depth);
    if (type == "array") return read_array(schema, pointer, depth);
    if (type == "string") return read_text(schema, pointer, budget, losses);
    if (type == "integer") return read_integer(schema, pointer, losses);
    if (type == "number") return read_number(schema, pointer, losses);
    if (type == "boolean") return std::make_unique<common_chat_schema_boolean>();
    if (type == "null") return std::make_unique<common_chat_schema_null>();
    return std::make_unique<common_chat_schema_any>();
  }

  Node read_array(const common_json &schema, const std::string &pointer, int depth) {
    const int min = count(schema, "minItems", pointer, 0);
    int max = count(schema, "maxItems", pointer, -1);
    check_order(min, max, "minItems", "maxItems", pointer);
    for (const char *keyword : {"contains", "minContains", "maxContains", "unevaluatedItems"}) {
      if (schema.contains(keyword)) losses.add(pointer + "/" + keyword, "a grammar cannot enforce it");
    }
    if (schema.contains("uniqueItems") && schema.at("uniqueItems") == true && (max < 0 || max > 1)) losses.add(pointer + "/uniqueItems", "a grammar cannot compare items");
    const bool old = schema.contains("items") && schema.at("items").is_array();
    const char *first = old ? "items" : "prefixItems";
    const char *others = old ? "additionalItems" : "items";
    if (old || (schema.contains("prefixItems") && schema.at("prefixItems").is_array())) {
      auto node = std::make_unique<Tuple>();
      // The answer has all of the first items, as in llama.cpp: the schema would allow fewer, but
      // does not ask for them. Items beyond the most are not read: `pending` keeps what is read.
      for (const auto &item : schema.at(first)) {
        if (static_cast<int>(node->items.size()) == max) break;
        node->items.push_back(read(item, pointer + "/" + first + "/" + std::to_string(node->items.size()), depth + 1));
      }
      if (schema.contains(others) && !schema.at(others).is_boolean()) node->rest = read(schema.at(others), pointer + "/" + others, depth + 1);
      else if (min > static_cast<int>(node->items.size())) {
        if (schema.contains(others) && schema.at(others) == false) fail(pointer + "/minItems", "No value matches: no more items are allowed.");
        node->rest = std::make_unique<common_chat_schema_any>();
      }
      node->min_items = min;
      node->max_items = max;
      return node;
    }
    auto node = std::make_unique<common_chat_schema_array>();
    const char *each = schema.contains("items") ? "items" : "prefixItems";
    if (schema.contains(each) && schema.at(each).is_boolean() && !schema.at(each).get<bool>()) {
      if (min > 0) fail(pointer + "/minItems", "No value matches: no item is allowed.");
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
    read_others(schema, *node, pointer, depth);
    if (schema.contains("properties")) {
      const common_json &properties = schema.at("properties");
      if (!properties.is_object()) fail(pointer + "/properties", "Expected an object of schemas by name.");
      for (const auto &[name, property] : properties.items()) {
        const std::string place = pointer + "/properties/" + escaped(name);
        check_name(name, pointer + "/properties");
        known.insert(name);
        const bool needed = required.count(name) > 0;
        if (property.is_boolean() && !property.get<bool>() && !needed) {
          if (node->additional_properties) losses.add(place, "other properties may have any name");
          continue;
        }
        node->properties.push_back({name, read(property, place, depth + 1), needed});
      }
    }
    for (const auto &name : required_order) {
      if (known.count(name) > 0) continue;
      check_name(name, pointer + "/required");
      if (!node->additional_properties && schema.contains("additionalProperties")) fail(pointer + "/required", "No value matches: the property " + shorten(name) + " is required and not allowed.");
      const std::string others = pointer + "/additionalProperties";
      const bool any = !schema.contains("additionalProperties") || schema.at("additionalProperties").is_boolean();
      node->properties.push_back({name, any ? std::make_unique<common_chat_schema_any>() : read(schema.at("additionalProperties"), others, depth + 1), true});
    }
    check_object(schema, *node, required.size(), pointer);
    return node;
  }

  // Reads which other properties are allowed. As in llama.cpp: none, if some are listed and the
  // schema does not mention others.
  void read_others(const common_json &schema, common_chat_schema_object &node, const std::string &pointer, int depth) {
    if (schema.contains("additionalProperties")) {
      const common_json &others = schema.at("additionalProperties");
      if (!others.is_boolean()) node.additional_properties = read(others, pointer + "/additionalProperties", depth + 1);
      else if (others.get<bool>()) node.additional_properties = std::make_unique<common_chat_schema_any>();
    } else if (!schema.contains("properties")) {
      node.additional_properties = std::make_unique<common_chat_schema_any>();
    }
  }

  // Names are strings, so a schema that only says that restricts nothing.
  static bool takes_any_name(const common_json &schema) {
    if (schema.is_boolean()) return schema == true;
    if (!schema.is_object() || schema.size() > 1) return false;
    return schema.empty() || (schema.contains("type") && schema.at("type") == "string");
  }

  void check_object(const common_json &schema, const common_chat_schema_object &node, size_t required, const std::string &pointer) {
    const bool open = node.additional_properties != nullptr;
    const int min = count(schema, "minProperties", pointer, 0), max = count(schema, "maxProperties", pointer, -1);
    check_order(min, max, "minProperties", "maxProperties", pointer);
    if (min > static_cast<int>(required)) losses.add(pointer + "/minProperties", "a grammar cannot count properties");
    if (max >= 0 && (open || node.properties.size() > static_cast<size_t>(max))) losses.add(pointer + "/maxProperties", "a grammar cannot count properties");
    if (schema.contains("patternProperties") && !(schema.at("patternProperties").is_object() && schema.at("patternProperties").empty())) losses.add(pointer + "/patternProperties", "a grammar distinguishes properties only by their full names");
    for (const char *keyword : {"propertyNames", "unevaluatedProperties"}) {
      if (schema.contains(keyword) && open && !takes_any_name(schema.at(keyword))) losses.add(pointer + "/" + keyword, "other properties may have any name");
    }
    for (const char *keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
      if (schema.contains(keyword)) losses.add(pointer + "/" + keyword, "one property cannot depend on another");
    }
  }

  const common_json &root;
  common_chat_schema_document &document;
  Budget &budget;
  Losses losses;
  std::deque<std::string> queue; // pointers of references still to be read
  std::vector<common_chat_schema_ref *> pending;
  std::vector<std::unique_ptr<common_json>> own;
  std::map<std::string, std::string> merged; // names by text: of those being read or referred to
  size_t merges = 0;
};

} // namespace

common_chat_schema_document read(const common_json &schema, Budget &budget, std::vector<Loss> *losses) {
  common_chat_schema_document document;
  Reader(schema, document, budget, losses).read_all();
  return document;
}

} // namespace recua::schema
