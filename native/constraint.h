// What a grammar asks of one sampler: the grammar's position, and for a lazy grammar the wait for its trigger, which is
// llama.cpp's own. Made on a pool thread, used on the context's thread.
#pragma once

#include "grammar.h"

#include "sampling.h"

#include <functional>
#include <list>

namespace recua {

struct FreeGrammar { void operator()(const llama_grammar *grammar) const { llama_grammar_free_impl(const_cast<llama_grammar *>(grammar)); } };

// The grammars of one model that were used last, and the tree they are walked with.
class GrammarCache {
public:
  // Any thread. Null where the grammar names tokens.
  std::shared_ptr<Grammar> grammar(const llama_vocab *vocab, const std::string &text);
  // A lazy grammar that has seen nothing yet, to be cloned: parsing it takes as long as the rest of a request's start.
  std::shared_ptr<const llama_grammar> waiting(const std::string &text, const std::string &triggers, const std::function<llama_grammar *()> &parse);
  std::shared_ptr<const PieceTree> tree(const llama_vocab *vocab);

private:
  static constexpr size_t most = 32;
  std::mutex mutex;
  std::list<std::pair<std::string, std::shared_ptr<Grammar>>> grammars; // the last used first
  struct Prototype {
    std::string text, triggers;
    std::shared_ptr<const llama_grammar> grammar;
  };
  std::list<Prototype> prototypes; // the last used first
  std::shared_ptr<const PieceTree> pieces;
};

class Constraint {
public:
  // Null where only llama.cpp's own sampler knows the grammar. Throws where it does not compile.
  static std::unique_ptr<Constraint> make(const llama_vocab *vocab, GrammarCache &cache, const common_params_sampling &params);

  // Whether the next token is constrained at all.
  bool active() const;
  bool allows(llama_token token) const;
  bool has_mask() const { return grammar->has_mask(position); }
  std::shared_ptr<const Grammar::Mask> mask() const { return grammar->mask(position, *tree); }
  // Throws where an active constraint does not allow the token.
  void accept(llama_token token);

private:
  struct FreeSampler { void operator()(llama_sampler *sampler) const { llama_sampler_free(sampler); } };

  Constraint() = default;
  void feed(llama_token token);
  bool thinking() const;

  std::shared_ptr<const PieceTree> tree;
  std::shared_ptr<Grammar> grammar;
  Grammar::Position position;
  std::unique_ptr<llama_grammar, FreeGrammar> waiting; // until the trigger comes
  std::unique_ptr<llama_sampler, FreeSampler> budget;  // knows where a thinking block is, in which the grammar rests
};

} // namespace recua
