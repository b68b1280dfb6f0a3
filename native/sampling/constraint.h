// What a grammar asks of one sampler: the grammar's position, and for a lazy grammar the wait for
// its trigger. Made on a pool thread, used on the compute thread, or on a pool thread while no
// step may use it.
#pragma once

#include "grammar/grammar.h"
#include "sampling/trigger.h"

#include "sampling.h"

#include <list>

namespace recua {

// The grammars of one model that were used last, and the tree they are walked with. Nothing is made
// under its lock.
// The tokens that the template has put into the prompt already as the answer's beginning.
std::vector<llama_token> begun(const llama_vocab *vocab, const std::string &prompt);

class GrammarCache {
public:
  // Any thread. Throws GrammarError, TooMuchWork.
  std::shared_ptr<Grammar> grammar(const llama_vocab *vocab, const std::string &text);
  std::shared_ptr<const Triggers> triggers(const std::vector<common_grammar_trigger> &given);
  std::shared_ptr<const PieceTree> tree(const llama_vocab *vocab);

  // What the grammars that are kept may hold together; the one asked for last is kept whatever its
  // size. Those in use grow on, each within bounds of its own, until the next is asked for.
  void limit(size_t bytes);
  struct Held {
    size_t count, bytes;
  };
  Held held();

private:
  static constexpr size_t most = 32;
  static constexpr size_t most_trigger_bytes = 64u << 10; // longer ones are made for each request

  void shrink();
  static size_t size_of(const std::pair<std::string, std::shared_ptr<Grammar>> &entry);

  size_t most_bytes = 256u << 20;
  std::mutex mutex; // guards the lists
  std::list<std::pair<std::string, std::shared_ptr<Grammar>>> grammars; // the last used first
  std::list<std::pair<std::string, std::shared_ptr<const Triggers>>> waits;
  std::once_flag tree_made;
  std::shared_ptr<const PieceTree> pieces;
};

class Constraint {
public:
  // Throws where the grammar does not compile, or does not begin as the prompt ends.
  static std::unique_ptr<Constraint> make(const llama_vocab *vocab, GrammarCache &cache,
                                          const common_params_sampling &params);

  // Whether the next token is constrained at all.
  bool active() const;
  // Whether the whole answer is its own, and has not begun: the model still thinks.
  bool rests() const { return !lazy && thinking(); }
  // Whether the answer may end here by it.
  bool may_end() const;
  bool allows(llama_token token, Effort &work) const;
  bool has_mask() const { return grammar->has_mask(position); }
  std::shared_ptr<const Grammar::Mask> mask(Effort &work);
  // The same where it takes so many steps that others must not wait for the grammar meanwhile.
  std::shared_ptr<const Grammar::Mask> mask_apart(Effort &work);
  // Throws where an active constraint does not allow the token.
  void accept(llama_token token);

private:
  struct FreeSampler {
    void operator()(llama_sampler *sampler) const { llama_sampler_free(sampler); }
  };

  Constraint() = default;
  void feed(llama_token token);
  void feed_piece(llama_token token, const std::string &bytes);
  bool thinking() const;

  std::shared_ptr<const PieceTree> tree;
  std::shared_ptr<Grammar> grammar;
  Grammar::Position position;
  uint32_t laborious = 0; // masks that are not tried here: of the last ones some took too much work
  bool lazy = false;
  std::unique_ptr<Trigger> waiting; // until the trigger comes
  std::unique_ptr<llama_sampler, FreeSampler>
      budget; // knows where a thinking block is, in which the grammar rests
};

} // namespace recua
