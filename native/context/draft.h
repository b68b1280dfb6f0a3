// Prompt lookup: guesses how a sequence continues, from the place where its last tokens occurred
// before or from text that the request predicts, and decides how many guesses are worth evaluating
// beside the next token. A guess decides nothing: every token is sampled from its own logits
// (step.cpp).
#pragma once

#include "llama.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace recua {

// The guesses for one sequence. Belongs to the sequence's sampler; made on a pool thread, used on
// the compute thread.
class Drafter {
public:
  // `predicted`: the answer may begin with these tokens, or contain parts of them.
  explicit Drafter(const std::vector<llama_token> &history, const std::vector<llama_token> &predicted = {});

  // Takes the next token, and updates the hit rates of guesses, whether they were evaluated or not.
  void accept(llama_token token);
  bool has_guess() const { return next >= 0; }
  // The probability that the next guess is right, after `hits_more` further right guesses.
  double chance(size_t hits_more) const { return chances[stage(hits + hits_more)]; }
  // The next `count` tokens, as they occurred before. Past the end of the known tokens the
  // repetition continues.
  void guess(size_t count, llama_token *out) const;

private:
  static constexpr size_t length = 3; // tokens that must have occurred before
  static constexpr size_t stages = 4;
  static size_t stage(size_t hits) { return hits == 0 ? 0 : hits < 4 ? 1 : hits < 16 ? 2 : 3; }

  size_t place(size_t end) const;
  void note(size_t end);
  void find();

  std::vector<llama_token> tokens;
  std::vector<int32_t> latest; // by hash of `length` tokens: index of the token after their last occurrence; 0: none
  int64_t next = -1;           // index of the expected token; -1: no guess
  size_t hits = 0;             // right guesses in a row before it
  // By length of the current run of hits. Initial values suit text that is partly repeated; then
  // they follow the measured hit rate.
  std::array<double, stages> chances = {0.5, 0.7, 0.9, 0.97};
};

// Milliseconds per step, by number of sequences and of guesses that each of them evaluates. Compute
// thread.
class DraftCosts {
public:
  // `always`: evaluate as many guesses as possible, whatever they cost.
  DraftCosts(size_t sequences, size_t most_guesses, bool always);

  void measured(size_t sequences, size_t guesses, double ms);
  // The number of guesses per sequence, at most `most`, that promises the most tokens per
  // millisecond; 0 if guesses do not pay.
  size_t best(const std::vector<const Drafter *> &drafters, size_t most);

private:
  struct Row {
    std::vector<double> ms; // by guesses; 0: not measured
    size_t plain = 0;       // steps without guesses so far
    size_t drafted = 0;     // steps with guesses since the last one without
  };

  static double first_estimate(const Row &row, size_t guesses);
  static double estimate(const Row &row, size_t guesses);

  std::vector<Row> rows; // by sequences - 1
  bool always;
};

} // namespace recua
