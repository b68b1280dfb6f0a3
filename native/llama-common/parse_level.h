// How deep a parser of answers recurses: it calls itself for each part of a format, and so some
// times for each open bracket of JSON. Compiled into llama-common (cmake/peg-parser.cmake).
#pragma once

#include <stdexcept>

namespace recua {

// One call within another. `depth` is the parse's own.
class ParseLevel {
public:
  explicit ParseLevel(int &depth) : depth(depth) {
    if (++depth > most) throw std::runtime_error("too many brackets are open at once");
  }
  ~ParseLevel() { --depth; }
  ParseLevel(const ParseLevel &) = delete;
  ParseLevel &operator=(const ParseLevel &) = delete;

private:
  static constexpr int most = 5000; // some 350 to 500 brackets, and a megabyte of stack
  int &depth;
};

} // namespace recua
