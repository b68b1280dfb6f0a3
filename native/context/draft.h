// Prompt lookup: what a sequence is likely to go on with, taken from where its last tokens came
// before or from what the request foretells, and whether evaluating so many guesses beside the next
// token pays. A guess decides nothing: every token is sampled from its own logits (step.cpp).
#pragma once

#include "llama.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace recua {

// One sequence's guesses. Belongs to its sampler; made on a pool thread, used on the compute
// thread.
class Drafter {
public:
  // `predicted`: the answer may begin with this, or hold parts of it.
  explicit Drafter(const std::vector<llama_token> &history, const std::vector<llama_token> &predicted = {});

  // Takes the token that came, and learns from it how good the guesses are, whether they were
  // evaluated or not.
  void accept(llama_token token);
  bool has_guess() const { return next >= 0; }
  // How likely the guess after `hits_more` right ones is right.
  double chance(size_t hits_more) const { return chances[stage(hits + hits_more)]; }
  // The next `count` tokens as they came before; beyond the end of what is known the repetition
  // goes on.
  void guess(size_t count, llama_token *out) const;

private:
  static constexpr size_t length = 3; // tokens that must have come before
  static constexpr size_t stages = 4;
  static size_t stage(size_t hits) { return hits == 0 ? 0 : hits < 4 ? 1 : hits < 16 ? 2 : 3; }

  size_t place(size_t end) const;
  void note(size_t end);
  void find();

  std::vector<llama_token> tokens;
  std::vector<int32_t> latest; // by hash of `length` tokens: index of the token after them, 0 for none; the last one wins
  int64_t next = -1;           // index of the token that is expected
  size_t hits = 0;             // how many before it came as expected
  // By how long it has gone well. First as in text that is partly repeated, then as it turns out.
  std::array<double, stages> chances = {0.5, 0.7, 0.9, 0.97};
};

// Milliseconds of steps in which each of so many sequences evaluates its token and so many guesses.
// Of the compute thread.
class DraftCosts {
public:
  // `always`: as many guesses as there may be, whatever they cost.
  DraftCosts(size_t sequences, size_t most_guesses, bool always);

  void measured(size_t sequences, size_t guesses, double ms);
  // How many guesses for each, at most `most`, promise most tokens per millisecond; 0 where none is
  // worth it.
  size_t best(const std::vector<const Drafter *> &drafters, size_t most);

private:
  struct Row {
    std::vector<double> ms; // by guesses; 0 is not known
    size_t plain = 0;       // steps without guesses so far
    size_t drafted = 0;     // steps with guesses since the last one without
  };

  static double first_estimate(const Row &row, size_t guesses);
  static double estimate(const Row &row, size_t guesses);

  std::vector<Row> rows; // by sequences - 1
  bool always;
};

} // namespace recua
