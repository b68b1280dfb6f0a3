// The trigger of a lazy grammar: a token, a word, or a pattern in the answer so far. From there on
// the grammar covers the text. Belongs to one sampler.
#pragma once

#include "common.h"

#include <memory>
#include <regex>
#include <string>
#include <vector>

namespace recua {

// Shared by the samplers of one shape, because patterns take a while to compile.
class Triggers {
public:
  explicit Triggers(const std::vector<common_grammar_trigger> &given);

  struct Pattern {
    std::regex regex;
    bool whole; // must match the whole text
  };
  std::vector<llama_token> tokens;
  std::vector<std::string> words;
  std::vector<Pattern> patterns;
};

class Trigger {
public:
  explicit Trigger(std::shared_ptr<const Triggers> triggers) : triggers(std::move(triggers)) {}

  // A token and its bytes, or the rest of a token's bytes, to feed to the grammar.
  struct Piece {
    llama_token token; // -1: the rest of a token
    std::string bytes;
  };
  // Takes the next token. Returns true when the trigger comes; `out` then holds the pieces for the
  // grammar, this token included.
  bool accept(llama_token token, const std::string &bytes, std::vector<Piece> &out);

private:
  size_t find(size_t added) const;

  std::shared_ptr<const Triggers> triggers;
  std::string text;
  std::vector<std::pair<llama_token, size_t>> ends; // of the tokens in the text
};

} // namespace recua
