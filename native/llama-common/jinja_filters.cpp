// See jinja_filters.h.
#include "jinja_filters.h"

#include "jinja/value.h"
#include "jinja_bounds.h"
#include "json.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <string>

namespace recua_jinja {

jinja::value mapped(const jinja::func_args &args) {
  const std::string given = args.get_args().at(1)->val_str.str();
  const std::string name = given == "trim" ? "strip" : given;
  auto results = jinja::mk_val<jinja::value_array>();
  for (const jinja::value &one : args.get_pos(0)->as_array()) {
    used(*one);
    const jinja::func_builtins &filters = one->get_builtins();
    const auto filter = filters.find(name);
    if (filter == filters.end()) throw std::runtime_error("Unknown filter '" + given + "' for type " + one->type());
    jinja::func_args each(args.ctx);
    each.func_name = name;
    each.push_back(one);
    for (size_t i = 2; i < args.count(); i++) each.push_back(args.get_args()[i]);
    jinja::value result = filter->second(each);
    made(result);
    results->push_back(result);
  }
  return results;
}

jinja::value chosen(const jinja::func_args &args, bool rejects) {
  const jinja::value member = args.get_pos(1);
  const std::string name = args.get_pos(2)->as_string().str();
  const auto test = jinja::global_builtins().find("test_is_" + name);
  if (test == jinja::global_builtins().end()) throw std::runtime_error("selectattr: unknown test '" + name + "'");
  jinja::value missing = jinja::mk_val<jinja::value_undefined>();
  auto results = jinja::mk_val<jinja::value_array>();
  for (const jinja::value &one : args.get_pos(0)->as_array()) {
    if (!jinja::is_val<jinja::value_object>(one)) throw std::runtime_error("selectattr: item is not an object");
    used(*one);
    jinja::func_args each(args.ctx);
    each.push_back(one->at(member, missing));
    if (test->second(each)->as_bool() != rejects) results->push_back(one);
  }
  return results;
}

jinja::value unique(const jinja::func_args &args) {
  std::set<std::string> seen;
  auto results = jinja::mk_val<jinja::value_array>();
  for (const jinja::value &one : args.get_pos(0)->as_array()) {
    used(*one);
    std::string name = jinja::value_to_string_repr(one);
    text(name.size());
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return c < 0x80 ? static_cast<char>(std::tolower(c)) : static_cast<char>(c); });
    if (seen.insert(std::move(name)).second) results->push_back(one);
  }
  return results;
}

std::string number(double value) { return common_json(value).dump(); }

std::string quoted(const std::string &text) {
  const char mark = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  const std::string control = "\n\r\t", letters = "nrt";
  std::string out(1, mark);
  for (const char c : text) {
    const size_t known = control.find(c);
    if (known != std::string::npos) {
      out += {'\\', letters[known]};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char code[5];
      std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned char>(c));
      out += code;
    } else {
      if (c == mark || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + mark;
}

jinja::value as_text(const jinja::value &value) {
  if (jinja::is_val<jinja::value_float>(value)) return jinja::mk_val<jinja::value_string>(number(value->as_float()));
  if (!jinja::is_val<jinja::value_array>(value) && !jinja::is_val<jinja::value_object>(value)) return value;
  printed(value);
  return jinja::mk_val<jinja::value_string>(value->as_string());
}

} // namespace recua_jinja
