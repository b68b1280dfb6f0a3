// Text → tokens: finds the control tokens and the other tokens that the vocabulary takes whole, and
// lets llama.cpp tokenize the text between them. Same results as llama_tokenize(), but in time
// proportional to the text however many such tokens it holds, with places that must stay text, and
// with cancellation. Any thread.
#pragma once

#include "model/specials.h"

#include "llama.h"

#include <string>
#include <vector>

namespace recua {

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
