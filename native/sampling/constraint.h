// The grammar of one sampler: its position in the grammar, and for a lazy grammar the wait for the
// trigger. Made on a pool thread; used on the compute thread, or on a pool thread while no step may
// use it.
#pragma once

#include "grammar/grammar.h"
#include "model/tokens.h"
#include "sampling/trigger.h"

#include "sampling.h"

#include <list>
#include <set>

namespace recua {

// The tokens at the start of the answer that the template has already put into the prompt. Throws
// `cancelled`.
std::vector<llama_token> begun(const llama_vocab *vocab, const Specials &specials,
                               const std::string &prompt, const volatile int32_t *cancelled);

// The most recently used grammars of one model, and the tree that they are walked with. Nothing is
// compiled under its lock.
class GrammarCache {
public:
  // Any thread. `markers`: see Grammar. Throws GrammarError, TooMuchWork.
  std::shared_ptr<Grammar> grammar(const llama_vocab *vocab, const Specials &specials,
                                   const std::string &text, const std::set<llama_token> &markers);
  std::shared_ptr<const Triggers> triggers(const std::vector<common_grammar_trigger> &given);
  std::shared_ptr<const PieceTree> tree(const llama_vocab *vocab);

  // The most bytes that the cached grammars may hold together; the latest one requested is kept
  // whatever its size. Grammars in use keep growing, each within its own bounds, until the next
  // request.
  void limit(size_t bytes);
  struct Held {
    size_t count, bytes;
  };
  Held held();

private:
  static constexpr size_t most = 32;
  static constexpr size_t most_trigger_bytes = 64u << 10; // longer triggers are not cached

  void shrink();
  static size_t size_of(const std::pair<std::string, std::shared_ptr<Grammar>> &entry);

  size_t most_bytes = 256u << 20;
  std::mutex mutex; // guards the lists
  std::list<std::pair<std::string, std::shared_ptr<Grammar>>> grammars; // most recently used first
  std::list<std::pair<std::string, std::shared_ptr<const Triggers>>> waits;
  std::once_flag tree_made;
  std::shared_ptr<const PieceTree> pieces;
};

class Constraint {
public:
  // Throws if the grammar does not compile, or does not accept the answer's start in the prompt
  // (`chat_unsupported`), and `cancelled`.
  static std::unique_ptr<Constraint> make(const llama_vocab *vocab, const Specials &specials,
                                          GrammarCache &cache,
                                          const common_params_sampling &params,
                                          const volatile int32_t *cancelled);

  // Whether the grammar constrains the next token.
  bool active() const;
  // True if the grammar covers the whole answer, which has not begun: the model is still thinking.
  bool rests() const { return !lazy && thinking(); }
  // Memory of the compiled grammar, without what using it adds.
  size_t bytes() const { return grammar->rules()->bytes(); }
  // Whether the grammar allows the answer to end here.
  bool may_end() const;
  bool allows(llama_token token, Effort &work) const;
  bool has_mask() const { return grammar->has_mask(position); }
  std::shared_ptr<const Grammar::Mask> mask(Effort &work);
  // The same on a copy of the grammar: for work that others must not wait for.
  std::shared_ptr<const Grammar::Mask> mask_apart(Effort &work);
  // Throws if the constraint is active and does not allow the token.
  void accept(llama_token token);

private:
  struct FreeSampler {
    void operator()(llama_sampler *sampler) const { llama_sampler_free(sampler); }
  };

  Constraint() = default;
  void prefill(const llama_vocab *vocab, const Specials &specials, const std::string &prompt,
               const volatile int32_t *cancelled);
  void feed(llama_token token);
  void feed_piece(llama_token token, const std::string &bytes);
  bool move(llama_token token, const std::string &bytes);
  bool thinking() const;

  std::shared_ptr<const PieceTree> tree;
  std::shared_ptr<Grammar> grammar;
  Grammar::Position position;
  uint32_t laborious = 0; // how many more masks to refuse here, after one that took too much work
  bool lazy = false;
  std::unique_ptr<Trigger> waiting; // until the trigger comes
  std::unique_ptr<llama_sampler, FreeSampler>
      budget; // tracks thinking blocks; the grammar is suspended inside one
};

} // namespace recua
