// GBNF, llama.cpp's grammar language: text → rules. Linear in the text, without recursion, with
// limits on the size of the result. Called on pool threads; the rules are immutable.
#pragma once

#include "grammar/effort.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace recua {

// The text is not a grammar. The message has line and column, what was expected and what was found.
struct GrammarError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct GrammarRules {
  enum class Kind : uint8_t {
    end,         // of a rule
    alternative, // end of one alternative; the next one follows
    rule,        // value: the rule's number
    character,   // value: a code point
    set,         // value: index in `sets`
    token,       // value: a token
    other_token, // any token except this value
  };
  struct Element {
    Kind kind;
    uint32_t value;
  };
  struct Range {
    uint32_t first, last;
  };
  // Ranges [begin, end) in rising order, none touching another; `negated`: all characters outside
  // of them.
  struct Set {
    uint32_t begin, end;
    bool negated;
  };

  std::vector<Element> elements; // all rules, one after the other
  std::vector<uint32_t> starts;  // index of each rule in `elements`
  std::vector<Set> sets;
  std::vector<Range> ranges;
  uint32_t root = 0;
  bool names_tokens = false;

  // Derived from the rules.
  std::vector<uint32_t>
      alternatives; // starts of the non-empty alternatives, rule by rule
  std::vector<uint32_t> alternative_ends; // by rule: where its alternatives end
  std::vector<bool> nullable;             // by rule: can be empty
  std::vector<bool> nullable_tail; // by element: all from it to the end of its alternative can be empty
  std::vector<uint32_t>
      component; // by rule: rises from a rule to the rules that it may begin with
  // A component is one rule, or a loop of rules that returns to itself without reading.
  std::vector<uint32_t> component_rules; // the rules, ordered by component
  std::vector<uint32_t> component_ends;  // by component: where its rules end
  // The first character of each class. A class is the characters that no element distinguishes.
  std::vector<uint32_t> bounds;

  bool ends(uint32_t element) const { return elements[element].kind <= Kind::alternative; }
  size_t bytes() const;
};

// The token that `<name>` means, or -1.
using TokenNamed = std::function<int32_t(const std::string &name)>;

// Whether tokens can spell any of the characters from `first` to `last`.
using Spelled = std::function<bool(uint32_t first, uint32_t last, Effort &work)>;

// Throws GrammarError, TooMuchWork, WorkCancelled. Tokens named by number must be below
// `vocab_size`.
std::shared_ptr<const GrammarRules> parse_gbnf(const std::string &text,
                                               const TokenNamed &token_named, int32_t vocab_size,
                                               const Spelled &spelled, Effort &work);

// Makes rules without a name in the text: created first, defined later, so that they may refer to
// themselves.
struct NewParts {
  std::function<uint32_t()> make;
  std::function<void(uint32_t part, std::vector<GrammarRules::Element> elements)> define;
};
constexpr uint64_t unlimited = UINT64_MAX;

// gbnf_repetition.cpp: repeats an item at least `least` and at most `most` (or unlimited) times.
std::vector<GrammarRules::Element> repeat_item(std::vector<GrammarRules::Element> item,
                                               uint64_t least, uint64_t most, const NewParts &parts,
                                               Effort &work);

// gbnf_sharing.cpp: turns the alternatives of a rule into a tree if there are very many.
// `definitions` holds the elements of each rule; new_part() appends to it.
void share_beginnings(std::vector<std::vector<GrammarRules::Element>> &definitions, uint32_t rule,
                      const std::function<uint32_t()> &new_part, Effort &work);

// gbnf_spelling.cpp: removes the alternatives that no tokens can spell. Throws GrammarError if that
// leaves nothing of the root.
void keep_spelled(std::vector<std::vector<GrammarRules::Element>> &definitions,
                  const GrammarRules &sets, const Spelled &spelled, Effort &work);

// gbnf_analysis.cpp: whether the root has endlessly many texts, or as good as endlessly many: some
// rule refers back to itself.
bool is_endless(const GrammarRules &rules);

// gbnf_analysis.cpp: fills in the derived properties. Throws GrammarError for left recursion;
// `name_of` gives a rule's name for the message.
void analyze(GrammarRules &rules, const std::function<std::string(uint32_t)> &name_of,
             Effort &work);

} // namespace recua
