// The possible continuations of a text by its grammar: a set of stacks of elements. Each stack
// holds the rest of a rule above the rests of the rules that called it. However many ways lead to a
// set, it is kept once: by the elements on top, each with the set of all stacks below it. So equal
// parts below are shared, and two ways to the same element are merged. Sets are numbered; equal
// sets have the same number. Not thread-safe: the owner (grammar.h) locks.
#pragma once

#include "grammar/gbnf.h"

#include <unordered_map>

namespace recua {

class Stacks {
public:
  using Id = uint32_t;
  static constexpr Id nothing = 0; // no stack: the text does not fit
  static constexpr Id ended = 1;   // only the empty stack: nothing may follow

  explicit Stacks(std::shared_ptr<const GrammarRules> rules);

  // The set at the start of each text.
  Id start(Effort &work);
  // From a set with characters or tokens on top to the next such set. `kind`: class of the
  // character (class_of).
  Id step(Id from, size_t kind, Effort &work);
  // The same for a whole token.
  Id step_token(Id from, uint32_t token, Effort &work);
  Id unite(Id a, Id b, Effort &work);

  size_t class_of(uint32_t character) const;
  // Whether a character may follow of which all but the last `remaining` six-bit parts are known.
  bool may_begin(Id from, uint32_t value, int32_t remaining, Effort &work);
  bool may_end(Id id) const { return sets[id].empty_stack; }
  bool names_tokens(Id id) const { return sets[id].tokens; }
  // Calls `visit` with each token element on top.
  template <typename Visit>
  void each_token(Id id, Visit &&visit) const {
    for (uint32_t at = sets[id].begin; at < sets[id].end; at++) {
      const auto &element = rules->elements[entries[at].element];
      if (element.kind >= GrammarRules::Kind::token) visit(element);
    }
  }

  // Copies a set into another Stacks object of the same grammar.
  Id copy_to(Stacks &other, Id id, Effort &work) const;
  // In bytes, roughly.
  size_t size() const { return size_bytes; }

  const std::shared_ptr<const GrammarRules> rules;

private:
  struct Entry {
    uint32_t element;
    Id below;
  };
  struct Set {
    uint32_t begin, end; // range in `entries`, in rising order of elements
    bool empty_stack;    // the set contains the empty stack
    bool tokens;         // a token element is on top of one
    Id unfolded; // with top references replaced by the beginnings of their rules; may be unknown
    uint32_t table; // start of its steps in `tables`; may be unknown
    uint32_t seen;  // the last walk that visited the set
  };
  // Stacks to continue with behind a component of rules that call each other.
  struct Pending {
    std::vector<Entry> entries;
    std::vector<Id> wholes;
  };
  static constexpr Id unknown = UINT32_MAX;
  static uint64_t key_of(uint32_t high, uint32_t low) {
    return (static_cast<uint64_t>(high) << 32) | low;
  }
  static constexpr size_t few_classes = 256; // up to this many, steps are in a table
  static constexpr size_t wide =
      64; // entries from which they are found by class instead of one by one

  Id intern(const Entry *list, size_t count, bool empty_stack, Effort &work);
  // Interns any entries; those with the same element are merged.
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
  std::vector<uint32_t> index; // hash table of sets; 0: free
  std::unordered_map<uint64_t, Id> unions;
  std::unordered_map<uint64_t, Id> steps; // by set and class
  std::vector<Id>
      tables; // the same if classes are few: all steps of each set that was stepped from
  // Entries of wide sets, by the class of the one character that they take. Entries that take
  // several characters are listed under their set alone.
  std::unordered_map<uint64_t, std::vector<uint32_t>> by_class;
  std::unordered_map<uint64_t, bool> beginnings; // results of may_begin() for wide sets
  uint32_t walks = 0;
  std::vector<uint16_t> low_classes; // of the lowest characters
  size_t size_bytes = 0;
};

} // namespace recua
