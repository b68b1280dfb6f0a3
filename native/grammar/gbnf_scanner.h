// Reads the text of a grammar from start to end: characters, names, numbers, and the places of
// errors.
#pragma once

#include "grammar/gbnf.h"

namespace recua {

class GbnfScanner {
protected:
  GbnfScanner(const std::string &text, Effort &work) : text(text), work(work) {}

  bool done() const { return at >= text.size(); }
  char peek(size_t further = 0) const {
    return at + further < text.size() ? text[at + further] : '\0';
  }
  void advance(size_t count = 1) {
    work.spend(count);
    at += count;
  }
  // Skips blanks and comments, and line ends if `newlines`.
  void skip_space(bool newlines);
  // Letters, digits and '-'.
  std::string word(const char *expected);
  uint64_t number(const char *expected); // larger numbers become 2^60
  // A character of a literal or a set, escaped or not.
  uint32_t character();

  // "line 1, column 2" of an index in the text.
  std::string place(size_t where) const;
  [[noreturn]] void fail(const std::string &expected) const; // adds what was found
  [[noreturn]] void fail_at(size_t where, const std::string &message) const;

  static bool is_digit(char c) { return '0' <= c && c <= '9'; }
  static bool is_word(char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || c == '-' || is_digit(c);
  }

  const std::string &text;
  Effort &work;
  size_t at = 0;

private:
  std::string came() const;
  uint32_t hex(size_t digits);
};

} // namespace recua
