// The nodes of a schema → rules of GBNF. Rules and their names are llama.cpp's where it has the
// same ones; rules that its chat parsers refer to by name ("space", "tool-…-schema") keep their
// names. Recursion is as deep as the schema is nested; references wait in a queue.
#include "schema/schema_builtins.h"
#include "schema/schema_parts.h"
#include "schema/schema_text.h"

#include "schema_hooks.h"

#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>

namespace recua::schema {

namespace {

// Of names that the converter makes. Names that llama.cpp's parsers give are never cut: they refer
// to them as they are.
constexpr size_t longest_name = 80;
const std::string root_name = "root";
// Any of them may come next, so the automaton follows all of them at every character.
constexpr size_t most_optional = 2000;

template <typename T>
const T &as(const common_chat_schema &node) {
  return static_cast<const T &>(node);
}

class Writer {
public:
  explicit Writer(Budget &budget) : budget(budget) { builtin("space"); }

  // The rule that the grammar begins with. A part of a schema may have the same name, and then gets
  // another one.
  std::string add_root(const std::string &content) {
    budget.write(content.size() + 8);
    if (!rules.emplace(root_name, content).second && rules[root_name] != content) throw Refusal("", "The schema has two outermost rules.");
    return root_name;
  }

  // A rule that llama.cpp's parsers refer to by `name`.
  void add_named(const std::string &name, const std::string &content) {
    if (name == root_name) add_root(content);
    else add_cleaned(clean(name, name.size()), content);
  }

  // Returns the rule's name, which may be another one.
  std::string add_rule(const std::string &wanted, const std::string &content) { return add_cleaned(clean(wanted, longest_name), content); }

  std::string add_cleaned(std::string name, const std::string &content) {
    budget.write(name.size() + content.size() + 8);
    const auto known = rules.find(name);
    if (known != rules.end() && known->second == content) return name;
    if (known != rules.end() || name == root_name || reserved.count(name) > 0 || builtins().count(name) > 0) name = unique(name);
    rules[name] = content;
    return name;
  }

  // Returns the name of the rule: `wanted` if that is free.
  std::string add_schema(const std::string &wanted, const common_chat_schema &schema) {
    const std::string made = visit(schema, wanted);
    while (!waiting.empty()) {
      const auto [node, name] = waiting.front();
      waiting.pop_front();
      add_reserved(name, expression(*node, name));
    }
    return made;
  }

  std::string text() const {
    std::string all;
    for (const auto &[name, content] : rules) all.append(name).append(" ::= ").append(content).append(1, '\n');
    return all;
  }

private:
  static std::string clean(const std::string &wanted, size_t longest = longest_name) {
    std::string name;
    for (const char c : wanted) {
      const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      if (fits) name += c;
      else if (name.empty() || name.back() != '-' || c == '-') name += '-';
      if (name.size() >= longest) break;
    }
    return name.empty() ? "rule" : name;
  }

  // A name derived from this one that no rule has.
  std::string unique(const std::string &name) {
    size_t &next = numbers[name];
    std::string made;
    do made = name + std::to_string(next++);
    while (rules.count(made) > 0 || reserved.count(made) > 0 || builtins().count(made) > 0);
    return made;
  }

  void add_reserved(const std::string &name, const std::string &content) {
    budget.write(name.size() + content.size() + 8);
    rules[name] = content;
  }

  const std::string &builtin(const std::string &name) {
    const auto found = builtins().find(name);
    if (rules.emplace(name, found->second.content).second) {
      for (const char *need : found->second.needs) builtin(need);
    }
    return found->first;
  }

  // Makes a rule for the schema and returns its name. The outermost node has none.
  std::string visit(const common_chat_schema &node, const std::string &name) {
    budget.step();
    if (name.empty()) return add_root(expression(node, name));
    const std::string simple = simple_name(node);
    if (!simple.empty()) return builtin(simple);
    if (node.kind() == common_chat_schema::KIND_REF) return reference(as<common_chat_schema_ref>(node));
    return add_rule(name, expression(node, name));
  }

  // The expression for a node that needs no rule of its own; '' for other nodes.
  static std::string simple_name(const common_chat_schema &node) {
    switch (node.kind()) {
      case common_chat_schema::KIND_ANY: return "value";
      case common_chat_schema::KIND_NULL: return "null";
      case common_chat_schema::KIND_BOOLEAN: return "boolean";
      case common_chat_schema::KIND_INTEGER: {
        const auto &integer = as<Integer>(node);
        return integer.bounds.any() || integer.multiple > 0 ? "" : "integer";
      }
      case common_chat_schema::KIND_NUMBER: {
        const auto &number = as<Number>(node);
        return number.bounds.any() || number.decimals > 0 ? "" : "number";
      }
      case common_chat_schema::KIND_OBJECT: {
        const auto &object = as<common_chat_schema_object>(node);
        return object.properties.empty() && object.additional_properties && object.additional_properties->kind() == common_chat_schema::KIND_ANY ? "object" : "";
      }
      case common_chat_schema::KIND_ARRAY: {
        const auto &array = as<common_chat_schema_array>(node);
        return array.items->kind() == common_chat_schema::KIND_ANY && array.min_items == 0 && array.max_items < 0 ? "array" : "";
      }
      case common_chat_schema::KIND_STRING: {
        const auto &text = as<Text>(node);
        if (!text.follows.empty() || !text.rules.empty()) return "";
        if (text.format == common_chat_schema::FORMAT_UUID) return "uuid";
        if (text.format == common_chat_schema::FORMAT_DATE) return "date-string";
        if (text.format == common_chat_schema::FORMAT_TIME) return "time-string";
        if (text.format == common_chat_schema::FORMAT_DATE_TIME) return "date-time-string";
        return text.min_length > 0 || text.max_length >= 0 ? "" : "string";
      }
      default: return "";
    }
  }

  NameRule namer(const std::string &name) {
    return [this, name](const std::string &content) { return add_rule((name.empty() ? root_name : name) + "-part", content); };
  }

  std::string expression(const common_chat_schema &node, const std::string &name) {
    const std::string simple = simple_name(node);
    if (!simple.empty()) {
      builtin(simple);
      return simple;
    }
    const std::string sub = name.empty() ? "" : name + "-";
    switch (node.kind()) {
      case common_chat_schema::KIND_REF: return reference(as<common_chat_schema_ref>(node));
      case common_chat_schema::KIND_ANY_OF: {
        std::string ways;
        size_t i = 0;
        for (const auto &child : as<common_chat_schema_any_of>(node).children) {
          ways += (i > 0 ? " | " : "") + visit(*child, (name.empty() ? "alternative-" : sub) + std::to_string(i));
          i++;
        }
        return ways;
      }
      case common_chat_schema::KIND_CONST: return constant(as<common_chat_schema_const>(node).value);
      case common_chat_schema::KIND_ENUM: {
        std::string ways = "(";
        for (const auto &value : as<common_chat_schema_enum>(node).values) ways += (ways.size() > 1 ? " | " : "") + constant(value);
        return ways + ")";
      }
      case common_chat_schema::KIND_OBJECT: return object(as<common_chat_schema_object>(node), name);
      case common_chat_schema::KIND_TUPLE: return tuple(as<Tuple>(node), name);
      case common_chat_schema::KIND_ARRAY: {
        const auto &array = as<common_chat_schema_array>(node);
        const std::string items = list(visit(*array.items, sub + "item"), static_cast<size_t>(array.min_items), array.max_items, name);
        return "\"[\" space " + items + " space \"]\"";
      }
      case common_chat_schema::KIND_STRING: {
        const auto &text = as<Text>(node);
        if (!text.rules.empty()) return "\"\\\"\" " + text.rules + " \"\\\"\"";
        if (!text.follows.empty()) return "\"\\\"\" (" + pattern_expression(text.follows, {text.min_length, text.max_length}, budget, namer(name)).expression + ") \"\\\"\"";
        return "\"\\\"\" " + repeat(builtin("char"), static_cast<size_t>(text.min_length), text.max_length, namer(name)) + " \"\\\"\"";
      }
      case common_chat_schema::KIND_INTEGER: {
        const auto &integer = as<Integer>(node);
        return integer.multiple > 0 ? multiples(integer.multiple, name) : *integer_range(integer.bounds);
      }
      case common_chat_schema::KIND_NUMBER: {
        const auto &number = as<Number>(node);
        if (number.decimals > 0) return "\"-\"? " + builtin("integral-part") + " (\".\" [0-9]{1," + std::to_string(number.decimals) + "})?";
        return *number_range(number.bounds);
      }
      default: throw Refusal("", "The schema has a part of an unknown kind.");
    }
  }

  std::string constant(const common_json &value) {
    const std::string text = literal(value.dump());
    budget.step();
    budget.write(text.size());
    return text;
  }

  std::string reference(const common_chat_schema_ref &node) {
    const common_chat_schema &target = *node.target;
    const auto known = targets.find(&target);
    if (known != targets.end()) return known->second;
    const std::string simple = simple_name(target);
    if (!simple.empty()) return builtin(simple);
    std::string name = clean("ref" + node.ref.substr(1));
    if (rules.count(name) > 0 || reserved.count(name) > 0) name = unique(name);
    reserved.insert(name);
    targets[&target] = name;
    waiting.emplace_back(&target, name);
    return name;
  }

  // A list of `item` with commas between.
  std::string list(const std::string &item, size_t min, long long max, const std::string &name) {
    if (max == 0) return "";
    if (max == 1 && min == 0) return item + "?";
    std::string more = repeat("(\",\" space " + item + ")", min == 0 ? 0 : min - 1, max < 0 ? max : max - 1, namer(name));
    if (!more.empty()) more = " " + more;
    return min == 0 ? "(" + item + more + ")?" : item + more;
  }

  std::string tuple(const Tuple &node, const std::string &name) {
    const std::string sub = name.empty() ? "" : name + "-";
    std::string all = "\"[\" space ";
    for (size_t i = 0; i < node.items.size(); i++) all += (i > 0 ? " \",\" space " : "") + visit(*node.items[i], sub + "tuple-" + std::to_string(i));
    if (node.rest) {
      const size_t min = node.min_items > static_cast<int>(node.items.size()) ? static_cast<size_t>(node.min_items) - node.items.size() : 0;
      const long long max = node.max_items < 0 ? -1 : static_cast<long long>(node.max_items) - static_cast<long long>(node.items.size());
      const std::string rest = max == 0 ? "" : visit(*node.rest, sub + "rest");
      if (node.items.empty()) all += list(rest, min, max, name);
      else if (max != 0) all += " " + repeat("(\",\" space " + rest + ")", min, max, namer(name));
    }
    return all + " space \"]\"";
  }

  std::string object(const common_chat_schema_object &node, const std::string &name) {
    const std::string sub = name.empty() ? "" : name + "-";
    std::string required;
    std::vector<std::string> optional;
    for (const auto &property : node.properties) {
      budget.step();
      const std::string value = visit(*property.schema, sub + (property.name.empty() ? "empty" : property.name));
      const std::string pair = add_rule(sub + property.name + "-kv", literal(common_json::make(property.name).dump()) + " space \":\" space " + value);
      if (property.required) required += (required.empty() ? "" : " \",\" space ") + pair;
      else optional.push_back(pair);
    }
    std::string others;
    if (node.additional_properties) {
      const std::string value = visit(*node.additional_properties, sub + "additional-value");
      const std::string key = node.properties.empty() ? builtin("string") : add_rule(sub + "additional-k", names_but(node.properties, sub));
      others = add_rule(sub + "additional-kv", key + " \":\" space " + value);
    }
    if (optional.size() > most_optional) {
      throw Refusal("", "The schema has an object with " + std::to_string(optional.size()) + " optional properties; at most " + std::to_string(most_optional) + " are possible.");
    }
    if (required.empty() && optional.empty() && others.empty()) return "\"{\" space \"}\"";
    std::string all = "\"{\" space " + required;
    std::string tail = optional_tail(optional, others, sub);
    if (!tail.empty()) all += required.empty() ? " (" + tail + " )?" : " ( \",\" space ( " + tail + " ) )?";
    return all + " space \"}\"";
  }

  // Any of the optional pairs in order, then other pairs; at least one.
  std::string optional_tail(const std::vector<std::string> &optional, const std::string &others, const std::string &sub) {
    std::string rest; // may follow the pair, each part with its comma
    std::string ways;
    if (!others.empty()) {
      const std::string more = "( \",\" space " + others + " )*";
      ways = others + " " + more;
      rest = optional.empty() ? "" : add_rule(sub + "others-rest", more);
    }
    for (size_t i = optional.size(); i-- > 0;) {
      ways = optional[i] + (rest.empty() ? "" : " " + rest) + (ways.empty() ? "" : " | " + ways);
      budget.step(1 + ways.size() / 256);
      if (i > 0) rest = add_rule(optional[i] + "-rest", "( \",\" space " + optional[i] + " )?" + (rest.empty() ? "" : " " + rest));
    }
    return ways;
  }

  std::string names_but(const std::vector<common_chat_schema_property> &properties, const std::string &sub) {
    builtin("char");
    return other_names(properties, budget, [&](const std::string &content) { return add_rule(sub + "name", content); });
  }

  // Multiples of up to about 16 digits: one rule per remainder.
  std::string multiples(unsigned divisor, const std::string &name) {
    // They refer to each other before they are made, so their names are reserved.
    std::vector<std::string> names;
    for (unsigned remainder = 0; remainder < divisor; remainder++) {
      names.push_back(unique(clean((name.empty() ? root_name : name) + "-remainder") + "-" + std::to_string(remainder) + "-"));
      reserved.insert(names.back());
    }
    const auto rule_of = [&](unsigned remainder) { return names[remainder]; };
    const auto ways_of = [&](unsigned remainder, unsigned first) {
      std::map<unsigned, std::string> by_next;
      for (unsigned digit = first; digit < 10; digit++) by_next[(remainder * 10 + digit) % divisor] += static_cast<char>('0' + digit);
      std::string ways;
      for (const auto &[next, digits] : by_next) ways += (ways.empty() ? "[" : " | [") + digits + "] " + rule_of(next);
      return ways;
    };
    for (unsigned remainder = 0; remainder < divisor; remainder++) add_reserved(rule_of(remainder), ways_of(remainder, 0) + (remainder == 0 ? " | \"\"" : ""));
    return "\"0\" | \"-\"? (" + ways_of(0, 1) + ")";
  }

  Budget &budget;
  std::map<std::string, std::string> rules;
  std::unordered_map<std::string, size_t> numbers;
  std::set<std::string> reserved;
  std::map<const common_chat_schema *, std::string> targets;
  std::deque<std::pair<const common_chat_schema *, std::string>> waiting;
};

Budget &shared(Budget &own) {
  Budget *current = current_budget();
  return current != nullptr ? *current : own;
}

} // namespace

std::string grammar_of(const common_chat_schema_document &document, Budget &budget) {
  Writer writer(budget);
  writer.add_schema("", *document.root);
  return writer.text();
}

std::string convert(const std::string &schema, std::vector<Loss> *losses) {
  check_json(schema, "invalid_schema", "the schema");
  Budget budget;
  return grammar_of(read(common_json::parse(schema), budget, losses), budget);
}

void check(const common_json &schema, const Freedom &freedom, std::vector<Loss> &losses) {
  Budget own;
  Budget &budget = shared(own);
  const auto document = read(schema, budget, &losses);
  count_walks(document, budget);
  grammar_of(document, budget);
  const auto add = [&](const std::string &pointer, const std::string &what) { Losses{&losses}.add(pointer, "this chat template " + what); };
  if (freedom.values) {
    for (const auto &name : constrained_values(document)) add("/properties/" + escaped(name), "lets arguments have any value");
  } else if (freedom.texts) {
    for (const auto &name : constrained_texts(document, budget)) add("/properties/" + escaped(name), "writes strings as they are, without quotes");
  }
  if (freedom.fewer && requires_some(document)) add("/required", "lets calls leave out arguments");
  if (freedom.names && schema.contains("additionalProperties") && schema.at("additionalProperties") != true) add("/additionalProperties", "lets calls have any arguments");
}

void install() {
  recua_schema_hooks hooks;
  hooks.read = [](const common_json &schema) {
    Budget own;
    return read(schema, shared(own), nullptr);
  };
  hooks.grammar = [](const common_chat_schema_document &document) {
    Budget own;
    return grammar_of(document, shared(own));
  };
  hooks.build = [](const std::function<void(const common_grammar_builder &)> &build, const common_grammar_options &) {
    Budget own;
    Writer writer(shared(own));
    build({[&](const std::string &name, const std::string &rule) {
             writer.add_named(name, rule);
             return name;
           },
           [&](const std::string &name, const common_chat_schema &schema) { return writer.add_schema(name == root_name ? "" : name, schema); }});
    return writer.text();
  };
  recua_set_schema_hooks(hooks);
}

} // namespace recua::schema
