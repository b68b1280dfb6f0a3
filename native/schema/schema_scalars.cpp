// Values, strings and numbers of a schema → nodes: everything that contains no other schema.
#include "schema/schema_parts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

namespace recua::schema {

void Losses::add(const std::string &pointer, const std::string &why) const {
  if (list == nullptr) return;
  const bool known = std::any_of(list->begin(), list->end(), [&](const Loss &loss) { return loss.pointer == pointer; });
  if (!known && list->size() < 100) list->push_back({pointer, why});
}

namespace {

constexpr int most_count = 1'000'000;

bool follows(const std::string &pattern, const Length &within, bool &held, const std::string &pointer, Budget &budget, const Losses &losses) {
  if (pattern.size() > longest_pointer) fail(pointer + "/pattern", "Expected a pattern of at most " + std::to_string(longest_pointer) + " bytes, got " + std::to_string(pattern.size()) + ".");
  try {
    held = pattern_expression(pattern, within, budget, [](const std::string &) { return std::string("part"); }).held;
    return true;
  } catch (const InvalidPattern &error) {
    fail(pointer + "/pattern", "Expected a regular expression, got " + shorten(pattern) + ": " + error.what() + ".");
  } catch (const CodedError &) {
    throw;
  } catch (const std::runtime_error &error) {
    losses.add(pointer + "/pattern", error.what());
    return false;
  }
}

bool old_style(const common_json &schema, const char *keyword) { return schema.contains(keyword) && schema.at(keyword) == true; }

// Whether these are the fewest digits that identify the double, as JavaScript writes it.
bool is_shortest(const std::string &whole, double number) {
  const std::string digits = whole.substr(0, whole.find_last_not_of('0') + 1);
  char text[40];
  for (int precision = 0; precision < 17; precision++) {
    std::snprintf(text, sizeof text, "%.*e", precision, number);
    if (std::strtod(text, nullptr) != number) continue;
    std::string found;
    for (const char *at = text; *at != 'e'; at++) {
      if (*at != '.') found += *at;
    }
    return found.substr(0, found.find_last_not_of('0') + 1) == digits;
  }
  return false;
}

// JavaScript writes integers over 2^53 with the fewest digits that identify the double, padded with
// zeros. The double's exact value is meant; for an upper bound next to the largest int64, that is
// the largest int64.
std::optional<Decimal> exact(const common_json &value) {
  auto number = read_decimal(value);
  if (!number || !number->fraction.empty() || number->whole.size() < 16 || number->whole.back() != '0') return number;
  const double rounded = std::strtod(number->whole.c_str(), nullptr);
  if (rounded <= 9007199254740992.0 || !is_shortest(number->whole, rounded)) return number;
  char text[64];
  std::snprintf(text, sizeof text, "%.0f", rounded);
  number->whole = text;
  if (!number->negative && number->whole == "9223372036854775808") number->whole = "9223372036854775807";
  return number;
}

Bounds bounds(const common_json &schema, const std::string &pointer) {
  Bounds found;
  const auto read_bound = [&](const char *keyword, bool excludes, std::optional<Decimal> &bound, bool &excluded, int sign) {
    if (!schema.contains(keyword)) return;
    const common_json &value = schema.at(keyword);
    if (value.is_boolean()) return; // drafts before 6: modifies the other keyword
    if (!value.is_number()) fail(pointer + "/" + keyword, "Expected a number, got " + shorten(value.dump()) + ".");
    const auto number = exact(value);
    if (!number) {
      const double given = value.get<double>();
      if (std::abs(given) > 1 && (given > 0) == (sign > 0)) return; // beyond any number that is ever written
      fail(pointer + "/" + keyword, "Expected a number of at most 40 digits before and after the decimal point, got " + shorten(value.dump()) + ".");
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

std::optional<Decimal> factor(const common_json &schema, const std::string &pointer) {
  const common_json &value = schema.at("multipleOf");
  if (!value.is_number() || value.get<double>() <= 0) fail(pointer + "/multipleOf", "Expected a number over 0, got " + shorten(value.dump()) + ".");
  return read_decimal(value);
}

} // namespace

int count(const common_json &schema, const char *keyword, const std::string &pointer, int missing) {
  if (!schema.contains(keyword)) return missing;
  const common_json &value = schema.at(keyword);
  const double number = value.is_number() ? value.get<double>() : -1;
  if (number < 0 || number != std::floor(number)) fail(pointer + "/" + keyword, "Expected a whole number of at least 0, got " + shorten(value.dump()) + ".");
  if (number > most_count) {
    if (missing < 0) return missing; // as good as unlimited
    fail(pointer + "/" + keyword, "Expected at most " + std::to_string(most_count) + ", got " + shorten(value.dump()) + ".");
  }
  return static_cast<int>(number);
}

void check_order(int min, int max, const char *low, const char *high, const std::string &pointer) {
  if (max < 0 || min <= max) return;
  fail(pointer + "/" + low, std::string("No value matches: ") + low + " is " + std::to_string(min) + " and " + high + " is " + std::to_string(max) + ".");
}

Node read_values(const common_json &schema, const std::vector<std::string> &types, const std::string &pointer, Budget &budget, const Losses &losses) {
  std::vector<common_json> values;
  const auto fits = [&](const common_json &value) {
    const std::string type = type_of(value);
    return types.empty() || std::any_of(types.begin(), types.end(), [&](const std::string &one) { return one == type || (one == "number" && type == "integer"); });
  };
  const bool single = schema.contains("const");
  if (schema.contains("enum")) {
    const common_json &list = schema.at("enum");
    if (!list.is_array() || list.empty()) fail(pointer + "/enum", "Expected a non-empty array of values.");
    if (list.size() > most_values) fail(pointer + "/enum", "Expected at most " + std::to_string(most_values) + " values, got " + std::to_string(list.size()) + ".");
    budget.step(list.size());
    for (const auto &value : list) {
      if (fits(value) && (!single || value == schema.at("const"))) values.push_back(value);
    }
  } else if (fits(schema.at("const"))) {
    values.push_back(schema.at("const"));
  }
  if (values.empty()) fail(pointer + (schema.contains("enum") ? "/enum" : "/const"), "None of the values has the required type.");
  for (const auto &entry : schema.items()) {
    const auto about = assertions().find(entry.key());
    if (about == assertions().end()) continue;
    const bool matters = std::any_of(values.begin(), values.end(), [&](const common_json &value) {
      const std::string type = type_of(value);
      return type == about->second || (type == "integer" && about->second == "number");
    });
    if (matters) losses.add(pointer + "/" + entry.key(), std::string("it is combined with ") + (single ? "const" : "enum"));
  }
  if (values.size() == 1 && single) return std::make_unique<common_chat_schema_const>(values[0]);
  auto node = std::make_unique<common_chat_schema_enum>();
  node->values = std::move(values);
  return node;
}

Node read_text(const common_json &schema, const std::string &pointer, Budget &budget, const Losses &losses) {
  auto node = std::make_unique<Text>();
  node->min_length = count(schema, "minLength", pointer, 0);
  node->max_length = count(schema, "maxLength", pointer, -1);
  check_order(node->min_length, node->max_length, "minLength", "maxLength", pointer);
  const auto text = [&](const char *keyword) -> std::string {
    if (!schema.contains(keyword)) return "";
    if (!schema.at(keyword).is_string()) fail(pointer + "/" + keyword, "Expected a string.");
    return schema.at(keyword).get<std::string>();
  };
  // Hints for forms and generators, true of any text.
  static const std::set<std::string> any_text = {"password", "binary", "byte", "path", "file-path", "directory-path", "textarea"};
  const std::string pattern = text("pattern"), format = text("format");
  const char *by_format = format_pattern(format);
  if (format == "date") node->format = common_chat_schema::FORMAT_DATE;
  else if (format == "time") node->format = common_chat_schema::FORMAT_TIME;
  else if (format == "date-time") node->format = common_chat_schema::FORMAT_DATE_TIME;
  else if (format == "uuid" || (format.size() == 5 && format.compare(0, 4, "uuid") == 0 && format[4] >= '1' && format[4] <= '5')) node->format = common_chat_schema::FORMAT_UUID;
  else if (by_format == nullptr && !format.empty() && any_text.count(format) == 0) losses.add(pointer + "/format", "the format is unknown");
  const Length within{node->min_length, node->max_length};
  bool held = false;
  if (!pattern.empty() && follows(pattern, within, held, pointer, budget, losses)) {
    node->follows = node->pattern = pattern;
    // JSON Schema defines a format as an annotation; the pattern decides.
    node->format = common_chat_schema::FORMAT_NONE;
  } else if (by_format != nullptr) {
    follows(by_format, within, held, pointer, budget, losses);
    node->follows = by_format;
  }
  if (!held && (!node->follows.empty() || node->format != common_chat_schema::FORMAT_NONE)) {
    const std::string beside = !node->pattern.empty() ? "it is combined with a pattern that is not simple" : "it is combined with a format";
    if (node->min_length > 0) losses.add(pointer + "/minLength", beside);
    if (node->max_length >= 0) losses.add(pointer + "/maxLength", beside);
  }
  return node;
}

Node read_integer(const common_json &schema, const std::string &pointer, const Losses &losses) {
  auto node = std::make_unique<Integer>();
  node->bounds = bounds(schema, pointer);
  if (node->bounds.any() && !integer_range(node->bounds)) fail(pointer, "No integer lies within the bounds of the schema.");
  if (!schema.contains("multipleOf")) return node;
  const auto divisor = factor(schema, pointer);
  if (divisor && divisor->fraction.empty() && divisor->whole == "1") return node;
  if (divisor && divisor->fraction.empty() && divisor->whole.size() <= 3 && !node->bounds.any()) node->multiple = static_cast<unsigned>(std::stoul(divisor->whole));
  else losses.add(pointer + "/multipleOf", node->bounds.any() ? "it is combined with a bound" : "only whole numbers up to 999 are supported");
  return node;
}

Node read_number(const common_json &schema, const std::string &pointer, const Losses &losses) {
  const Bounds within = bounds(schema, pointer);
  const auto divisor = schema.contains("multipleOf") ? factor(schema, pointer) : std::nullopt;
  if (divisor && divisor->fraction.empty()) return read_integer(schema, pointer, losses);
  auto node = std::make_unique<Number>();
  node->bounds = within;
  if (within.any() && !number_range(within)) fail(pointer, "No number lies within the bounds of the schema.");
  if (!schema.contains("multipleOf")) return node;
  const bool decimal = divisor && divisor->whole == "0" && divisor->fraction.size() <= 16 && divisor->fraction.back() == '1' && divisor->fraction.find_first_not_of('0') == divisor->fraction.size() - 1;
  if (decimal && !within.any()) node->decimals = static_cast<unsigned>(divisor->fraction.size());
  else losses.add(pointer + "/multipleOf", within.any() ? "it is combined with a bound" : "only whole numbers and 0.1, 0.01 and so on are supported");
  return node;
}

} // namespace recua::schema
