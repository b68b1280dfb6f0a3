// What Jinja2 can do and llama.cpp's template engine cannot, within the limits of jinja_bounds.h.
// Compiled into llama-common (cmake/jinja.cmake).
#pragma once

#include <memory>
#include <string>

namespace jinja {
struct value_t;
struct func_args;
}

namespace recua_jinja {

// The filter `map` with the name of another filter and its arguments: what that gives for each
// value, as a list.
std::shared_ptr<jinja::value_t> mapped(const jinja::func_args &args);
// The filters selectattr and rejectattr with the name of a test that needs no argument: the objects
// whose member passes it, or fails it if `rejects`.
std::shared_ptr<jinja::value_t> chosen(const jinja::func_args &args, bool rejects);
// The filter `unique`: of values that differ only in case, the first.
std::shared_ptr<jinja::value_t> unique(const jinja::func_args &args);
// A number as JSON and Python write it: all the digits that tell it from others.
std::string number(double value);
// A string in quotation marks, as Python writes it in a list.
std::string quoted(const std::string &text);
// What {{ }} prints: the text of a list, an object or a number, or the value itself.
std::shared_ptr<jinja::value_t> as_text(const std::shared_ptr<jinja::value_t> &value);

} // namespace recua_jinja
