// What may still come of a text, by its grammar: a set of stacks of elements, each what is left of
// a rule above what is left of those that called it. However many ways lead somewhere, a set is
// kept once: by the elements on top, each with the set of all stacks below it, so that what is
// alike below is shared, and two ways to the same element are one. Sets are numbered; equal sets
// have the same number. Not locked: whoever has it (grammar.h) sees to that.
#pragma once

#include "grammar/gbnf.h"

#include <unordered_map>

namespace recua {

class Stacks {
public:
  using Id = uint32_t;
  static constexpr Id nothing = 0; // no stack: the text fits no more
  static constexpr Id ended = 1;   // the empty stack alone: nothing may come

  explicit Stacks(std::shared_ptr<const GrammarRules> rules);

  // Where each text begins.
  Id start(Effort &work);
  // From a set with characters or tokens on top to the next such. `kind`: class of the character
  // (class_of).
  Id step(Id from, size_t kind, Effort &work);
  // The same for a whole token.
  Id step_token(Id from, uint32_t token, Effort &work);
  Id unite(Id a, Id b, Effort &work);

  size_t class_of(uint32_t character) const;
  // Whether a character may come of which all but `remaining` six-bit parts are known.
  bool may_begin(Id from, uint32_t value, int32_t remaining, Effort &work);
  bool may_end(Id id) const { return sets[id].empty_stack; }
  bool names_tokens(Id id) const { return sets[id].tokens; }
  // Calls what it is given with each token element on top.
  template <typename Visit>
  void each_token(Id id, Visit &&visit) const {
    for (uint32_t at = sets[id].begin; at < sets[id].end; at++) {
      const auto &element = rules->elements[entries[at].element];
      if (element.kind >= GrammarRules::Kind::token) visit(element);
    }
  }

  // The same set in another one of the same grammar.
  Id copy_to(Stacks &other, Id id, Effort &work) const;
  // Roughly, in bytes.
  size_t size() const { return size_bytes; }

  const std::shared_ptr<const GrammarRules> rules;

private:
  struct Entry {
    uint32_t element;
    Id below;
  };
  struct Set {
    uint32_t begin, end; // in `entries`, by element, rising
    bool empty_stack;    // the empty stack is in it
    bool tokens;         // so is a token element on top
    Id unfolded; // references on top replaced by what their rules begin with; unknown until asked
    uint32_t table; // where its steps begin in `tables`; unknown while there are none
    uint32_t seen;  // the last walk that came here
  };
  // What comes to a component of rules that call each other: stacks to go on with behind them.
  struct Pending {
    std::vector<Entry> entries;
    std::vector<Id> wholes;
  };
  static constexpr Id unknown = UINT32_MAX;
  static uint64_t key_of(uint32_t high, uint32_t low) {
    return (static_cast<uint64_t>(high) << 32) | low;
  }
  static constexpr size_t few_classes = 256; // whose steps are in a table
  static constexpr size_t wide =
      64; // entries that are found by their classes instead of one after the other

  Id intern(const Entry *list, size_t count, bool empty_stack, Effort &work);
  // Of any entries: those of the same element become one.
  Id collect(std::vector<Entry> &list, bool empty_stack, Effort &work);
  void add_behind(uint32_t element, Id below, std::vector<Entry> &list, bool &empty_stack,
                  Effort &work);
  Id unfold(Id id, Effort &work);
  Id compute_step(Id from, size_t kind, Effort &work);
  bool matches(uint32_t element, uint32_t character) const;
  bool set_may_begin(const GrammarRules::Element &element, uint32_t low, uint32_t high) const;
  void index_by_class(Id id, Effort &work);
  void fill_low_classes();
  void grow_index();
  void grew(size_t bytes);

  std::vector<Set> sets;
  std::vector<Entry> entries;
  std::vector<uint32_t> index; // hash table of sets, 0 is free
  std::unordered_map<uint64_t, Id> unions;
  std::unordered_map<uint64_t, Id> steps; // by set and class
  std::vector<Id>
      tables; // the same where classes are few: for each set that was stepped from, all of them
  // Entries of wide sets by class of the one character that they take; those that take several are
  // under their set alone.
  std::unordered_map<uint64_t, std::vector<uint32_t>> by_class;
  std::unordered_map<uint64_t, bool> beginnings; // what may_begin() found of wide sets
  uint32_t walks = 0;
  std::vector<uint16_t> low_classes; // of the lowest characters
  size_t size_bytes = 0;
};

} // namespace recua
