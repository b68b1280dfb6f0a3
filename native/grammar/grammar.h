// A GBNF grammar as an automaton with a memory: the same language as llama.cpp's, token by token,
// without malformed UTF-8. Sets of stacks are numbered (stacks.h), steps between them are looked
// up, and the tokens that a set allows are found by walking the vocabulary's tree once. Shared by
// all samplers with the same grammar text. Used on pool threads and on the compute thread, under
// its own lock, which is never held for more than the steps that the caller grants.
#pragma once

#include "grammar/piece_tree.h"
#include "grammar/stacks.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

namespace recua {

class Grammar {
public:
  // Where a sampler is: the set of possible continuations, and the start of a character whose last
  // bytes are missing.
  struct Position {
    uint32_t state = 0;
    uint32_t value = 0;
    int32_t remaining = 0;
  };

  // Which tokens may come next.
  struct Mask {
    bool few = true;
    std::vector<llama_token> tokens; // if few: all of them, in order
    std::vector<uint8_t> allowed;    // otherwise: one flag per token of the vocabulary
    bool allows(llama_token token) const {
      if (!few) return allowed[static_cast<size_t>(token)] != 0;
      return std::binary_search(tokens.begin(), tokens.end(), token);
    }
  };
  static constexpr size_t few_tokens = 16384;

  // Every function with a `work` throws TooMuchWork when its steps are used up, and WorkCancelled.
  // `markers`: the control tokens whose names appear in the text. Others may only come where the
  // grammar names the token itself, or the text would lack what the grammar has read.
  Grammar(std::shared_ptr<const GrammarRules> rules, std::vector<llama_token> markers, Effort &work);

  Position start() const { return {first_state, 0, 0}; }
  // Moves over a token, or over bytes that are not a token (`token` -1). Returns false, without
  // moving, if the grammar refuses it.
  bool accept(Position &position, llama_token token, const char *bytes, size_t count, Effort &work);
  // Whether the token may come next.
  bool allows(const Position &position, const PieceTree &tree, llama_token token, Effort &work);
  // Whether the text may end here.
  bool may_end(const Position &position);
  std::shared_ptr<const Mask> mask(const Position &position, const PieceTree &tree, Effort &work);
  // Whether the mask is cached.
  bool has_mask(const Position &position);
  // Caches a mask that was made elsewhere for the same position.
  void remember(const Position &position, std::shared_ptr<const Mask> mask);
  // Whether it has grown so large that a new one should replace it: nested texts lead to new states
  // without end.
  bool is_large() const;
  // Whether even a text in progress should continue in a new one.
  bool is_crowded() const { return crowded(); }
  // A new grammar that knows only this position; `position` is changed to refer to it.
  std::shared_ptr<Grammar> begin_anew(Position &position, Effort &work);
  const std::shared_ptr<const GrammarRules> &rules() const { return stacks.rules; }
  // In bytes, roughly.
  size_t size() const { return size_bytes; }

private:
  Grammar(std::shared_ptr<const GrammarRules> rules, std::vector<llama_token> markers)
      : markers(std::move(markers)), stacks(std::move(rules)) {}
  bool crowded() const;
  std::shared_ptr<Grammar> successor(Position &position, Effort &work) const;
  bool feed(Position &position, uint8_t byte, Effort &work);
  bool feed_all(Position &position, const char *bytes, size_t count, Effort &work);
  void walk(const Position &position, const PieceTree &tree, std::vector<llama_token> &allowed,
            Effort &work);
  void note_size();
  void keep(const Position &position, const std::shared_ptr<const Mask> &mask);

  const std::vector<llama_token> markers;
  std::mutex mutex; // guards the rest
  Stacks stacks;
  uint32_t first_state = 0;
  std::map<std::pair<uint64_t, int32_t>, std::shared_ptr<const Mask>> masks;
  size_t mask_bytes = 0;
  size_t first_bytes = 0;              // bytes at the start
  std::atomic<size_t> stacks_bytes{0}; // readable without the lock
  std::atomic<size_t> size_bytes{0};
};

} // namespace recua
