// Limits for chat templates, which come with model files: on computing time, text and nesting depth
// while a Session lives on the thread. Steps are counted to know when to look at the clock. Without
// a Session, as in llama-server, nothing is counted. Compiled into llama-common, whose template
// engine calls these functions (cmake/jinja.cmake). Each function throws std::runtime_error
// if a limit is exceeded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

// Whether a session lives on this thread.
bool in_session();
// Refuses if the living session was cancelled: llama.cpp tries what a template supports, and takes
// each failure for a no.
void complete();

// Watches the sessions of this thread while it lives. They refuse once `*cancelled` is not 0 (null:
// nothing cancels them), and after `seconds` of this thread's computing, all of them together.
class Watch {
public:
  static constexpr double most_seconds = 30;
  explicit Watch(const volatile int32_t *cancelled, double seconds = most_seconds);
  ~Watch();
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;
  // Whether a limit was exceeded: the same template would only exceed it again.
  bool exceeded() const { return refused || spent > allowed; }

private:
  friend class Session;
  friend void work(uint64_t sixteenths);
  const volatile int32_t *cancelled;
  double allowed;
  double spent = 0;     // by sessions that have ended
  bool refused = false; // the last session
};

// One level down: another call on this thread's stack.
void enter();
void step(uint64_t steps);
// Sixteenths of a step: what one value of a list, or one part of a text, costs a function that goes
// through all of them.
void work(uint64_t sixteenths);
// A function reads all of a text, list or object.
void used(const jinja::value_t &value);
// Two values are compared, whole.
void compared(const jinja::value_t &a, const jinja::value_t &b);
// Whether a text is one of these values; counts the comparisons.
bool contains(const std::vector<std::shared_ptr<jinja::value_t>> &values, const jinja::string &wanted);
// A text is searched for another.
void searched(size_t text, size_t other);
// Bytes of the text or list that a function is making.
void text(size_t bytes);
void text(const jinja::string &written);
// The value of a statement.
void made(const std::shared_ptr<jinja::value_t> &value);
// A value will be printed: its text, or the texts of all values in a list and in the lists within
// it, by every path.
void printed(const std::shared_ptr<jinja::value_t> &value);
// A variable is set, which looks for it among all of them; each scope copies all variables.
void variable(const std::string &name);
void scope();
// As in Python's sandbox, where other servers render.
void range(int64_t start, int64_t stop, int64_t steps);
// These three also without a session: the first and the last would end the process, and the
// remainder of a division by 0 is no number.
void divisor(int64_t number, int64_t by);
void modulus(double by);
void width(int64_t columns);
// A replacement or split of `from`: each occurrence costs a move of the text. `put`: bytes put in
// its place.
void rewrite(const std::string &text, const std::string &from, size_t put);
// Tokens of a template.
void tokens(size_t count);

// While llama.cpp learns a template's format: the template made this text of a few short messages.
std::string sample(std::string text);
// So much text is copied.
void copied(size_t bytes);
// A parser has read so much.
void parsed(size_t bytes);

} // namespace recua_jinja
