// Text → tokens: which parts of a text are control tokens or others that a vocabulary takes whole,
// and llama.cpp for the text between. As llama_tokenize() does it, but in steps that are in
// proportion to the text however many such tokens it holds, with places that must stay text, and
// with an end when nobody waits any more. Any thread.
#pragma once

#include "llama.h"

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace recua {

class Specials {
public:
  explicit Specials(const llama_vocab *vocab);

  struct Found {
    size_t at, length; // bytes of the text
    llama_token token;
    size_t before = 0, after = 0; // spaces that the token takes with it
  };
  // Where no token begins that is taken whole: for each byte of a text, or empty.
  struct Literal {
    std::vector<bool> control, any; // no control token; no other one either
  };
  // In order. Without `control` there is no control token at all.
  std::vector<Found> find(const std::string &text, bool control, const Literal &literal) const;

  // Whether a token is one of those that are looked for in a text before the others.
  bool contains(llama_token token) const { return tokens.count(token) > 0; }
  // Characters with which control tokens and marks begin.
  const std::vector<std::string> &mark_starts() const { return starts; }
  // True if a control token's text is at this place; or may be, behind the text's end.
  bool control_at(const std::string &text, size_t at) const;
  // True if a mark begins at this place. Marks are the other tokens in brackets, such as
  // <tool_response>: vocabularies have them as ordinary ones, and templates put what tools say
  // between them. HTML's elements are words like others, unless `source`, a template, mentions
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
  std::vector<bool> occurring(const std::string &text) const;

  std::vector<Special> all; // what llama.cpp looks for first is first
  std::unordered_set<llama_token> tokens;
  std::vector<std::string> starts;
  struct Node {
    std::vector<size_t> ends; // the specials that are spelled once one is here
    bool control = false;     // or on the way to one
  };
  std::vector<Node> nodes;
  std::unordered_map<uint64_t, int32_t> children;
};

// A text's first tokens, where these are known.
struct Begun {
  std::vector<llama_token> tokens = {};
  size_t at = 0; // the bytes that they stand for
  bool inside_text = false; // no special token is before the rest
};

class Beginnings {
public:
  virtual ~Beginnings() = default;
  // `found` are the special tokens of the text; `first` goes before it, -1 is nothing.
  virtual Begun of(const std::string &text, const std::vector<Specials::Found> &found, llama_token first) const = 0;
};

struct TokenizeOptions {
  bool add_special = false;
  bool parse_special = false;
  std::vector<int32_t> literal = {};      // as Prompt::literal
  const Beginnings *known = nullptr;
};

// Whether a text's first token begins with a space that the text has not.
bool adds_space_before(const llama_vocab *vocab);

// Throws `cancelled` once `cancelled` points to something else than 0; it may be null.
std::vector<llama_token> tokenize(const llama_vocab *vocab, const Specials &specials, const std::string &text,
                                  const TokenizeOptions &options, const volatile int32_t *cancelled = nullptr);
// The same.
void check_wanted(const volatile int32_t *cancelled);

// How many tokens a text has at the least, from its length alone: what cannot fit is refused before
// it is read.
struct LengthBound {
  explicit LengthBound(const llama_vocab *vocab);
  // Of a text, those that some token must stand for.
  size_t bytes(const std::string &text) const;
  size_t tokens(size_t bytes) const { return longest_piece == 0 ? 0 : (bytes + longest_piece - 1) / longest_piece; }

  size_t longest_piece; // the most bytes of text that can become one token; 0 where there is no such bound
  bool takes_spaces;    // there are tokens that take the spaces around them with them, however many
};
// Without the spaces before and behind it.
std::string trimmed(const std::string &text);

} // namespace recua
