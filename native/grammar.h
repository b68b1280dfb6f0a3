// A GBNF grammar as an automaton that remembers: the same language as llama.cpp's, whose parser makes its rules, but states
// are interned, steps between them are looked up, and the tokens a state allows are found by walking the vocabulary's tree
// once. Shared by all samplers of the same text; used on pool threads and on the context's thread, under a lock of its own.
#pragma once

#include "piece_tree.h"

#include "llama-grammar.h"

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace recua {

class Grammar {
public:
  // Where a sampler is: a set of stacks, and the beginning of a character whose last bytes are still to come.
  struct Position {
    int32_t state = 0;
    uint32_t value = 0;
    int32_t remaining = 0;
  };

  // Which tokens may come next.
  struct Mask {
    bool few = true;
    std::vector<llama_token> tokens; // all of them in order, where they are few
    std::vector<uint8_t> allowed;    // else one for each token of the vocabulary
  };
  static constexpr size_t few_tokens = 16384;

  // Null for grammars that name tokens, which llama.cpp judges itself. Throws std::runtime_error where the text is none.
  static std::shared_ptr<Grammar> parse(const llama_vocab *vocab, const std::string &text);

  Position start() const { return {first_state, 0, 0}; }
  // The position of a llama_grammar of the same text.
  Position locate(const llama_grammar &grammar);

  // Moves over a piece; false, and unmoved, where the grammar refuses it.
  bool accept(Position &position, const std::string &piece);
  // Whether the text may end here.
  bool may_end(const Position &position);
  std::shared_ptr<const Mask> mask(const Position &position, const PieceTree &tree);
  // Whether the mask is known already.
  bool has_mask(const Position &position);
  // Whether it remembers so much that a new one should take its place: nested texts lead to new states without end.
  bool is_large();
  // Whether even one text had better go on in a new one.
  bool is_crowded();
  // One that knows nothing but this position, which becomes one of its own.
  std::shared_ptr<Grammar> begin_anew(Position &position);

private:
  // A stack is its top element and the stack below it; 0 is the empty one.
  struct Stack {
    uint32_t below;
    uint32_t element;
    std::vector<uint32_t> closure; // the stacks it unfolds to: tops are characters, or it is empty
    bool closed = false;
  };
  struct State {
    std::vector<uint32_t> stacks; // sorted
    bool may_end = false;
    std::vector<int32_t> next; // by class of characters, where these are few: a state, refused or unknown
  };
  static constexpr int32_t unknown = -2;
  static constexpr int32_t refused = -1;
  static constexpr size_t few_classes = 256;

  Grammar() = default;
  size_t remembered_bytes() const;
  bool crowded() const;
  std::shared_ptr<Grammar> successor(Position &position) const;
  uint32_t push(uint32_t below, uint32_t element);
  const std::vector<uint32_t> &unfold(uint32_t stack);
  int32_t intern(std::vector<uint32_t> stacks);
  int32_t step(int32_t state, uint32_t character);
  int32_t compute_step(int32_t state, uint32_t character);
  void classify();
  size_t class_of(uint32_t character) const;
  bool feed(Position &position, uint8_t byte, bool continues);
  bool matches(uint32_t element, uint32_t character) const;
  bool may_begin(int32_t state, uint32_t value, int32_t remaining) const;
  bool element_may_begin(uint32_t element, uint32_t value, int32_t remaining) const;
  bool ends_alternative(uint32_t element) const;
  uint32_t after(uint32_t element) const;

  std::mutex mutex;
  std::vector<llama_grammar_element> elements; // all rules one after the other
  std::vector<uint32_t> rule_starts;
  int32_t first_state = 0;
  std::vector<Stack> stacks;
  std::unordered_map<uint64_t, uint32_t> stack_ids;
  std::vector<State> states;
  std::map<std::vector<uint32_t>, int32_t> state_ids;
  std::unordered_map<uint64_t, int32_t> steps; // by state and class of characters, where these are many
  // Characters that no element tells apart are one class: `bounds` has the first of each, `low_classes` the class of the 65,536 lowest.
  std::vector<uint32_t> bounds;
  std::vector<uint16_t> low_classes;
  std::map<std::pair<uint64_t, int32_t>, std::shared_ptr<const Mask>> masks;
  size_t mask_bytes = 0;
  size_t listed = 0; // stacks in all states together
  size_t first_bytes = 0; // what it remembered from the start
};

} // namespace recua
