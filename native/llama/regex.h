// A regular expression of those that pre-tokenizers are made of: ECMAScript's syntax without back
// references, lazy quantifiers and the dot, over bytes or code points. Matches as std::regex does
// (the first alternative that leads to a match), without recursion on the text. Used by
// regex_split.cpp.
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
  // To be called once all is added.
  void finish(bool negated = false);
  CharSet intersection(const CharSet &other) const;
  bool has(uint32_t c) const { return c < 256 ? (low[c >> 6] >> (c & 63) & 1) != 0 : has_high(c); }

private:
  bool has_high(uint32_t c) const;
  std::vector<std::pair<uint32_t, uint32_t>> ranges; // once finished: in order, apart from each other
  uint64_t low[4] = {};
};

enum class Op : uint8_t {
  set,      // x: the set that the next character is in
  span,     // x: the set; takes all that are in it, and gives none back
  split,    // goes on after it, and if that fails at y
  loop,     // the same; x: its number, because what came of it at a place is remembered
  jump,     // to y
  look,     // x: 1 if what follows must not match, else 0; y: where to go on
  end,      // of the text
  boundary, // between a word's character and another
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
  bool looks_loop = false; // true if there is a loop in a look-ahead
};

// Throws std::runtime_error where the pattern has what this does not know.
Program compile(const std::vector<uint32_t> &pattern);

// Finds matches in one text. Steps and memory are in proportion to its length: where a loop failed
// at a place once, it is not tried there again, from wherever it is reached.
template <typename Char> class Matcher {
public:
  Matcher(const Program &program, const Char *text, size_t length);

  // The first match from `from` on.
  bool search(size_t from, size_t &begin, size_t &end);
  // A match that begins at `at`. One of no characters does not count if `not_empty`.
  bool match(size_t at, bool not_empty, size_t &end);
  uint64_t steps() const { return taken; }

private:
  struct Frame {
    uint32_t at; // an instruction; with `mark`, the loop that failed once this is reached
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
  std::vector<uint64_t> failed, succeeded; // a bit for each loop at each place; the second of loops in look-aheads
  uint64_t taken = 0;
};

extern template class Matcher<char>;
extern template class Matcher<wchar_t>;

} // namespace recua::regex
