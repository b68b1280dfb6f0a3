// Matching; see regex.h. regex_compile.cpp makes the program.
#include "regex.h"

#include <algorithm>
#include <type_traits>

namespace recua::regex {

void CharSet::finish(bool negated) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<std::pair<uint32_t, uint32_t>> joined;
  for (const auto &range : ranges) {
    if (!joined.empty() && range.first <= joined.back().second) joined.back().second = std::max(joined.back().second, range.second);
    else joined.push_back(range);
  }
  if (negated) {
    std::vector<std::pair<uint32_t, uint32_t>> rest;
    uint64_t from = 0;
    for (const auto &[first, last] : joined) {
      if (first > from) rest.push_back({static_cast<uint32_t>(from), first - 1});
      from = static_cast<uint64_t>(last) + 1;
    }
    if (from <= UINT32_MAX) rest.push_back({static_cast<uint32_t>(from), UINT32_MAX});
    joined = std::move(rest);
  }
  ranges = std::move(joined);
  for (uint64_t &word : low) word = 0;
  for (const auto &[first, last] : ranges) {
    for (uint64_t c = first; c <= last && c < 256; c++) low[c >> 6] |= uint64_t{1} << (c & 63);
  }
}

CharSet CharSet::intersection(const CharSet &other) const {
  CharSet both;
  for (const auto &[first, last] : ranges) {
    for (const auto &[begin, end] : other.ranges) {
      if (begin <= last && first <= end) both.add(std::max(first, begin), std::min(last, end));
    }
  }
  both.finish();
  return both;
}

bool CharSet::has_high(uint32_t c) const {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), c, [](uint32_t c, const auto &range) { return c < range.first; });
  return after != ranges.begin() && c <= std::prev(after)->second;
}

template <typename Char>
Matcher<Char>::Matcher(const Program &program, const Char *text, size_t length) : program(program), text(text), length(length) {
  const size_t bits = program.loops * (length + 1);
  failed.assign((bits + 63) / 64, 0);
  if (program.looks_loop) succeeded.assign((bits + 63) / 64, 0);
}

template <typename Char> uint32_t Matcher<Char>::character(size_t position) const {
  return static_cast<uint32_t>(static_cast<std::make_unsigned_t<std::conditional_t<sizeof(Char) == 1, char, Char>>>(text[position]));
}

template <typename Char> bool Matcher<Char>::known(const std::vector<uint64_t> &bits, uint32_t loop, size_t position) const {
  const size_t bit = loop * (length + 1) + position;
  return (bits[bit >> 6] >> (bit & 63) & 1) != 0;
}

template <typename Char> void Matcher<Char>::note(std::vector<uint64_t> &bits, uint32_t loop, size_t position) {
  const size_t bit = loop * (length + 1) + position;
  bits[bit >> 6] |= uint64_t{1} << (bit & 63);
}

template <typename Char> bool Matcher<Char>::search(size_t from, size_t &begin, size_t &end) {
  for (size_t at = from; at <= length; at++) {
    if (!match(at, false, end)) continue;
    begin = at;
    return true;
  }
  return false;
}

template <typename Char> bool Matcher<Char>::match(size_t at, bool not_empty, size_t &end) {
  return run(0, at, not_empty ? at : SIZE_MAX, false, end);
}

// A match must not end at `not_at`. `looking`: inside a look-ahead, which recurses once; patterns
// nest only a few levels deep.
template <typename Char> bool Matcher<Char>::run(uint32_t at, size_t position, size_t not_at, bool looking, size_t &end) {
  const size_t base = frames.size();
  const auto word = [](uint32_t c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; };
  const auto push = [&](uint32_t at) { frames.push_back({at, static_cast<uint32_t>(position)}); };
  for (;;) {
    const Instruction &now = program.code[at];
    bool fits = true;
    bool accepted = false;
    taken++;
    switch (now.op) {
    case Op::set:
      fits = position < length && program.sets[now.x].has(character(position));
      if (fits) position++;
      break;
    case Op::span: {
      const size_t first = position;
      while (position < length && program.sets[now.x].has(character(position))) position++;
      taken += position - first;
      break;
    }
    case Op::split:
      push(now.y);
      break;
    case Op::loop:
      if (known(failed, now.x, position)) {
        fits = false;
      } else if (looking && known(succeeded, now.x, position)) {
        accepted = true;
      } else {
        push(at | mark);
        push(now.y);
      }
      break;
    case Op::jump:
      at = now.y;
      continue;
    case Op::look: {
      size_t unused = 0;
      fits = run(at + 1, position, SIZE_MAX, true, unused) != (now.x == 1);
      if (fits) {
        at = now.y;
        continue;
      }
      break;
    }
    case Op::end:
      fits = position == length;
      break;
    case Op::boundary: {
      const bool before = position > 0 && word(character(position - 1));
      const bool after = position < length && word(character(position));
      fits = before != after;
      break;
    }
    case Op::accept:
      accepted = position != not_at;
      fits = accepted;
      break;
    }
    if (accepted) {
      // The marks that remain belong to the loops that led here.
      for (size_t i = base; looking && i < frames.size(); i++) {
        if ((frames[i].at & mark) != 0) note(succeeded, program.code[frames[i].at & ~mark].x, frames[i].position);
      }
      frames.resize(base);
      end = position;
      return true;
    }
    if (fits) {
      at++;
      continue;
    }
    while (frames.size() > base && (frames.back().at & mark) != 0) {
      // If empty matches are excluded, a loop may have failed for that reason alone.
      if (not_at == SIZE_MAX) note(failed, program.code[frames.back().at & ~mark].x, frames.back().position);
      frames.pop_back();
    }
    if (frames.size() == base) return false;
    at = frames.back().at;
    position = frames.back().position;
    frames.pop_back();
  }
}

template class Matcher<char>;
template class Matcher<wchar_t>;

} // namespace recua::regex
