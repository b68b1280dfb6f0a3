// What a chat template may take, which a model's file brings along: steps and text are counted, and
// how deep it nests, while a Session lives on its thread; without one, as in llama-server, nothing
// is. Compiled into llama-common, whose template engine calls it (cmake/jinja-bounds.cmake). Each
// function throws std::runtime_error where there is too much.
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

// Of one prompt, or of reading one template, with all renderings that it needs. An inner one counts
// for the outer.
class Session {
public:
  Session();
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;
};

// A step on the way down: one more call on this thread's stack.
void enter();
void step(uint64_t steps);
// Bytes of text that are written.
void text(size_t bytes);
void text(const jinja::string &written);
// What a statement gave. Containers are kept until the session ends, and are then taken apart one
// by one: their own destructors would call each other as deep as they are nested, and never for
// circles.
void made(const std::shared_ptr<jinja::value_t> &value);
// A variable that is set; each scope copies all.
void variable(const std::string &name);
void scope();
// As Python's sandbox has it, which other servers render in.
void range(int64_t start, int64_t stop, int64_t steps);
// Both would end the process, with or without a session.
void divisor(int64_t number, int64_t by);
void width(int64_t columns);
// What `from` is replaced by, or split at, costs as many moves of the text as it is found.
void rewrite(const std::string &text, const std::string &from, size_t put);
// Of a template.
void tokens(size_t count);

} // namespace recua_jinja
