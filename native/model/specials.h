// The tokens that a text is cut at before the rest is tokenized: control tokens, and others that
// the vocabulary takes whole. Any thread.
#pragma once

#include "llama.h"

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace recua {

class Specials {
public:
  explicit Specials(const llama_vocab *vocab);

  struct Found {
    size_t at, length; // in bytes
    llama_token token;
    size_t before = 0, after = 0; // spaces that the token absorbs
  };
  // Places where no token that is taken whole may begin: one flag per byte of the text, or empty.
  struct Literal {
    std::vector<bool> control, any; // no control token; no other whole token either
  };
  // In text order. With `control` false, finds no control tokens at all. Takes time and memory
  // proportional to the text, with as many such tokens as it may hold. Throws `cancelled` once
  // `*cancelled` is not 0; `cancelled` may be null.
  std::vector<Found> find(const std::string &text, bool control, const Literal &literal,
                          const volatile int32_t *cancelled = nullptr) const;

  // Whether a token is one of those that are searched for first.
  bool contains(llama_token token) const { return tokens.count(token) > 0; }
  // The first characters of control tokens and marks.
  const std::vector<std::string> &mark_starts() const { return starts; }
  // True if a control token's text is at this place, or may be if the text went on past its end.
  bool control_at(const std::string &text, size_t at) const;
  // True if a mark begins at this place. Marks are the other tokens in brackets, such as
  // <tool_response>: vocabularies list them as ordinary tokens, and templates put the output of
  // tools between them. HTML elements count as plain words, unless the template `source` mentions
  // them.
  bool mark_at(const std::string &text, size_t at, const std::string &source) const;

private:
  struct Special {
    llama_token token;
    std::string text;
    bool control, mark, element, takes_before, takes_after;
  };
  int32_t child(int32_t node, unsigned char byte) const;
  void insert(size_t index);
  // Where a token's text stands in a text.
  struct Places {
    std::vector<size_t> at;
    bool everywhere = false; // in so many places that none is kept
    size_t read = 0;
    // The first place from `from` on, which must not shrink between calls.
    size_t next(const std::string &text, const std::string &token, size_t from);
  };
  // By the index of each token that the text has.
  std::map<size_t, Places> places_in(const std::string &text, const volatile int32_t *cancelled) const;

  std::vector<bool> begins; // whether a byte begins one
  std::vector<Special> all; // in llama.cpp's search order
  std::unordered_set<llama_token> tokens;
  std::vector<std::string> starts;
  struct Node {
    std::vector<size_t> ends; // the specials that end at this node
    bool control = false;     // of a control token, or on the way to one
  };
  std::vector<Node> nodes;
  std::unordered_map<uint64_t, int32_t> children;
};

inline bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

} // namespace recua
