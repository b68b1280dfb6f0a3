// What the sessions of this thread (jinja_bounds.h) have rendered, so that the same template and
// input are rendered once in a session. Compiled into llama-common, whose chat.cpp calls it
// (cmake/rendered-once.cmake). Without a session, as in llama-server, nothing is kept.
#pragma once

#include <functional>
#include <string>

namespace recua_jinja {

// `input`: all that the text depends on besides the template and `marks`, as JSON.
std::string rendered_once(const void *chat_template, bool marks, const std::function<std::string()> &input,
                          const std::function<std::string()> &render);
// The session has ended.
void forget_rendered();

} // namespace recua_jinja
