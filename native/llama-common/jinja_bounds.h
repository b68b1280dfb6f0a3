// Limits for chat templates, which come with model files: counts steps, text and nesting depth
// while a Session lives on the thread. Without a Session, as in llama-server, nothing is counted.
// Compiled into llama-common, whose template engine calls these functions
// (cmake/jinja-bounds.cmake). Each function throws std::runtime_error if a limit is exceeded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace jinja {
struct value_t;
struct string;
}

namespace recua_jinja {

// Counts the rendering of one prompt, or the reading of one template, with all renderings that it
// needs. An inner session counts towards the outer one.
class Session {
public:
  Session();
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;
};

// One level down: another call on this thread's stack.
void enter();
void step(uint64_t steps);
// Bytes of text written.
void text(size_t bytes);
void text(const jinja::string &written);
// The value of a statement. Containers are kept until the session ends, and are then taken apart
// one by one: their own destructors would recurse as deep as they are nested, and would never free
// cycles.
void made(const std::shared_ptr<jinja::value_t> &value);
// A variable is set; each scope copies all variables.
void variable(const std::string &name);
void scope();
// As in Python's sandbox, where other servers render.
void range(int64_t start, int64_t stop, int64_t steps);
// Both would end the process, with or without a session.
void divisor(int64_t number, int64_t by);
void width(int64_t columns);
// A replacement or split of `from`: each occurrence costs a move of the text. `put`: bytes put in
// its place.
void rewrite(const std::string &text, const std::string &from, size_t put);
// Tokens of a template.
void tokens(size_t count);

} // namespace recua_jinja
