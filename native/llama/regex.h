// Regular expressions for pre-tokenizers: ECMAScript's syntax without back references, lazy
// quantifiers and the dot, over bytes or code points. Matches like std::regex (the first
// alternative that leads to a match), but without recursion on the text. Used by regex_split.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace recua::regex {

class CharSet {
public:
  void add(uint32_t first, uint32_t last) { ranges.push_back({first, last}); }
  void add(const CharSet &other) { ranges.insert(ranges.end(), other.ranges.begin(), other.ranges.end()); }
  // Call when everything is added.
  void finish(bool negated = false);
  CharSet intersection(const CharSet &other) const;
  bool has(uint32_t c) const { return c < 256 ? (low[c >> 6] >> (c & 63) & 1) != 0 : has_high(c); }

private:
  bool has_high(uint32_t c) const;
  std::vector<std::pair<uint32_t, uint32_t>> ranges; // once finished: sorted and disjoint
  uint64_t low[4] = {};
};

enum class Op : uint8_t {
  set,      // x: the set that the next character must be in
  span,     // x: the set; takes all characters that are in it, and gives none back
  split,    // continues after it; if that fails, at y
  loop,     // the same; x: the loop's number, because its result at each position is remembered
  jump,     // to y
  look,     // x: 1 if the following must not match, else 0; y: where to continue
  end,      // end of the text
  boundary, // between a word character and another
  accept,
};

struct Instruction {
  Op op;
  uint32_t x = 0, y = 0;
};

struct Program {
  std::vector<Instruction> code;
  std::vector<CharSet> sets;
  uint32_t loops = 0;
  bool looks_loop = false; // a look-ahead contains a loop
};

// Throws std::runtime_error for unsupported syntax.
Program compile(const std::vector<uint32_t> &pattern);

// Finds matches in one text. Steps and memory are proportional to its length: a loop that failed at
// a position is not tried there again, however it is reached.
template <typename Char> class Matcher {
public:
  Matcher(const Program &program, const Char *text, size_t length);

  // The first match at or after `from`.
  bool search(size_t from, size_t &begin, size_t &end);
  // A match that begins at `at`. With `not_empty`, an empty match does not count.
  bool match(size_t at, bool not_empty, size_t &end);
  uint64_t steps() const { return taken; }

private:
  struct Frame {
    uint32_t at; // an instruction; with `mark`, the loop that has failed if this is reached
    uint32_t position;
  };
  static constexpr uint32_t mark = 1u << 31;

  bool run(uint32_t at, size_t position, size_t not_at, bool looking, size_t &end);
  uint32_t character(size_t position) const;
  bool known(const std::vector<uint64_t> &bits, uint32_t loop, size_t position) const;
  void note(std::vector<uint64_t> &bits, uint32_t loop, size_t position);

  const Program &program;
  const Char *text;
  size_t length;
  std::vector<Frame> frames;
  std::vector<uint64_t> failed, succeeded; // a bit per loop and position; `succeeded`: for loops in look-aheads
  uint64_t taken = 0;
};

extern template class Matcher<char>;
extern template class Matcher<wchar_t>;

} // namespace recua::regex
