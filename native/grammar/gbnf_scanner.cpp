// Reads characters as llama.cpp's grammars do.
#include "grammar/gbnf_scanner.h"

#include <algorithm>

namespace recua {

void GbnfScanner::fail_at(size_t where, const std::string &message) const {
  throw GrammarError(place(where) + ": " + message);
}

std::string GbnfScanner::place(size_t where) const {
  const auto begin = text.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(where);
  const auto line = std::count(begin, end, '\n') + 1;
  const size_t start = where == 0 ? std::string::npos : text.rfind('\n', where - 1);
  const auto from =
      start == std::string::npos ? begin : begin + static_cast<std::ptrdiff_t>(start + 1);
  const auto column =
      std::count_if(from, end, [](char c) { return (static_cast<uint8_t>(c) >> 6) != 2; }) + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

std::string GbnfScanner::came() const {
  if (done()) return "the end of the grammar";
  const char c = peek();
  if (c == '\n' || c == '\r') return "the end of the line";
  if (c == '\0') return "a NUL byte";
  size_t length = 1;
  while (at + length < text.size() && (static_cast<uint8_t>(text[at + length]) >> 6) == 2) length++;
  if (static_cast<uint8_t>(c) < 0x20) return "a control character";
  return '"' + text.substr(at, std::min<size_t>(length, 4)) + '"';
}

void GbnfScanner::fail(const std::string &expected) const {
  fail_at(at, "expected " + expected + ", got " + came());
}

void GbnfScanner::skip_space(bool newlines) {
  for (; !done(); at++) {
    const char c = peek();
    if (c == '#') {
      while (!done() && peek() != '\r' && peek() != '\n') at++;
      if (done()) return;
      if (!newlines) return;
    } else if (c != ' ' && c != '\t' && !(newlines && (c == '\r' || c == '\n'))) {
      return;
    }
  }
}

std::string GbnfScanner::word(const char *expected) {
  const size_t from = at;
  while (!done() && is_word(peek())) advance();
  if (at == from) fail(expected);
  return text.substr(from, at - from);
}

uint32_t GbnfScanner::hex(size_t digits) {
  uint32_t value = 0;
  for (size_t i = 0; i < digits; i++) {
    const char c = peek();
    const int digit = is_digit(c)            ? c - '0'
                      : 'a' <= c && c <= 'f' ? c - 'a' + 10
                      : 'A' <= c && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) fail(std::to_string(digits) + " hexadecimal digits");
    value = (value << 4) + static_cast<uint32_t>(digit);
    advance();
  }
  if (value > 0x10FFFF) fail("a character up to \\U0010FFFF");
  return value;
}

uint32_t GbnfScanner::character() {
  const auto first = static_cast<uint8_t>(peek());
  if (first == '\\') {
    advance();
    const char c = peek();
    if (done() || std::string("xuUtrn\\\"[]-").find(c) == std::string::npos)
      fail("one of \\x \\u \\U \\t \\r \\n \\\\ \\\" \\[ \\] \\-");
    advance();
    switch (c) {
      case 'x': return hex(2);
      case 'u': return hex(4);
      case 'U': return hex(8);
      case 't': return '\t';
      case 'r': return '\r';
      case 'n': return '\n';
      default: return static_cast<uint8_t>(c);
    }
  }
  static constexpr uint8_t lengths[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
  const uint32_t length = lengths[first >> 4];
  uint32_t value = first & ((1u << (8 - length)) - 1);
  advance();
  for (uint32_t i = 1; i < length && !done(); i++) {
    value = (value << 6) + (static_cast<uint8_t>(peek()) & 0x3fu);
    advance();
  }
  return value;
}

uint64_t GbnfScanner::number(const char *expected) {
  if (!is_digit(peek())) fail(expected);
  uint64_t value = 0;
  for (; is_digit(peek()); advance()) {
    value = std::min(value * 10 + static_cast<uint64_t>(peek() - '0'), uint64_t{1} << 60);
  }
  return value;
}

} // namespace recua
