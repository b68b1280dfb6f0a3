// Text → tokens: finds the control tokens and the other tokens that the vocabulary takes whole, and
// lets llama.cpp tokenize the text between them. Same results as llama_tokenize(), but in time
// proportional to the text however many such tokens it holds, with places that must stay text, and
// with cancellation. Any thread.
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
    size_t at, length; // in bytes
    llama_token token;
    size_t before = 0, after = 0; // spaces that the token absorbs
  };
  // Places where no token that is taken whole may begin: one flag per byte of the text, or empty.
  struct Literal {
    std::vector<bool> control, any; // no control token; no other whole token either
  };
  // In text order. With `control` false, finds no control tokens at all.
  std::vector<Found> find(const std::string &text, bool control, const Literal &literal) const;

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
  std::vector<bool> occurring(const std::string &text) const;

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

// The first tokens of a text, if they are known.
struct Begun {
  std::vector<llama_token> tokens = {};
  size_t at = 0; // the bytes that they cover
  bool inside_text = false; // no special token comes before the rest
};

class Beginnings {
public:
  virtual ~Beginnings() = default;
  // `found`: the special tokens of the text. `first`: the token before the text, or -1.
  virtual Begun of(const std::string &text, const std::vector<Specials::Found> &found, llama_token first) const = 0;
};

struct TokenizeOptions {
  bool add_special = false;
  bool parse_special = false;
  std::vector<int32_t> literal = {};      // like Prompt::literal
  const Beginnings *known = nullptr;
};

// Whether the first token of a text begins with a space that the text does not have.
bool adds_space_before(const llama_vocab *vocab);

// Throws `cancelled` once `*cancelled` is not 0; `cancelled` may be null.
std::vector<llama_token> tokenize(const llama_vocab *vocab, const Specials &specials, const std::string &text,
                                  const TokenizeOptions &options, const volatile int32_t *cancelled = nullptr);
// Throws `cancelled` likewise.
void check_wanted(const volatile int32_t *cancelled);
// Throws `invalid_argument` unless all are tokens of the vocabulary.
void check_tokens(const llama_vocab *vocab, const std::vector<llama_token> &tokens);

// The fewest tokens a text can have, from its length alone, so that a text that cannot fit is
// refused before it is read.
struct LengthBound {
  explicit LengthBound(const llama_vocab *vocab);
  // The bytes of a text that tokens must cover.
  size_t bytes(const std::string &text) const;
  size_t tokens(size_t bytes) const { return longest_piece == 0 ? 0 : (bytes + longest_piece - 1) / longest_piece; }

  size_t longest_piece; // most bytes of text that can become one token; 0: no bound
  bool takes_spaces;    // some tokens absorb any number of spaces around them
};
// The text without leading and trailing spaces.
std::string trimmed(const std::string &text);

} // namespace recua
