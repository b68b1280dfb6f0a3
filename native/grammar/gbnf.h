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
      alternatives; // where each that is not empty begins, of one rule after the other,
  std::vector<uint32_t> alternative_ends; // which end here
  std::vector<bool> nullable;             // by rule: the empty text is one of its texts
  std::vector<bool> nullable_tail; // by element: so is all from it to the end of its alternative
  std::vector<uint32_t>
      component; // by rule: rising from a rule to those that its texts may begin with
  std::vector<uint32_t> component_rules; // the rules by component,
  std::vector<uint32_t> component_ends;  // which end here: one each, or those of a loop that comes
                                         // back to itself without having read
  // Characters that no element tells apart are one class: the first of each.
  std::vector<uint32_t> bounds;

  bool ends(uint32_t element) const { return elements[element].kind <= Kind::alternative; }
  size_t bytes() const;
};

// What `<name>` means: the token, or -1 where it is none.
using TokenNamed = std::function<int32_t(const std::string &name)>;

// Whether tokens can spell any of the characters from the first to the last.
using Spelled = std::function<bool(uint32_t first, uint32_t last, Effort &work)>;

// Throws GrammarError, TooMuchWork, WorkCancelled. `vocab_size` bounds the tokens that may be named
// by number.
std::shared_ptr<const GrammarRules> parse_gbnf(const std::string &text,
                                               const TokenNamed &token_named, int32_t vocab_size,
                                               const Spelled &spelled, Effort &work);

// Rules that have no name in the text: made first, defined then, so that they may refer to
// themselves.
struct NewParts {
  std::function<uint32_t()> make;
  std::function<void(uint32_t part, std::vector<GrammarRules::Element> elements)> define;
};
constexpr uint64_t unlimited = UINT64_MAX;

// gbnf_repetition.cpp: an item, at least and at most (or unlimited) so many times.
std::vector<GrammarRules::Element> repeat_item(std::vector<GrammarRules::Element> item,
                                               uint64_t least, uint64_t most, const NewParts &parts,
                                               Effort &work);

// gbnf_sharing.cpp: makes a tree of a rule's alternatives where there are very many. `definitions`
// are the elements of each rule; new_part() adds one to them.
void share_beginnings(std::vector<std::vector<GrammarRules::Element>> &definitions, uint32_t rule,
                      const std::function<uint32_t()> &new_part, Effort &work);

// gbnf_spelling.cpp: takes away the alternatives that no tokens can spell. Throws GrammarError
// where nothing else is left of the root.
void keep_spelled(std::vector<std::vector<GrammarRules::Element>> &definitions,
                  const GrammarRules &sets, const Spelled &spelled, Effort &work);

// gbnf_analysis.cpp: whether the root's texts are of endless number, or so many that they may as
// well be: it comes round to a rule that it is within.
bool is_endless(const GrammarRules &rules);

// gbnf_analysis.cpp: fills in what follows from the rules. Throws GrammarError for left recursion;
// `name_of` a rule is for its message.
void analyze(GrammarRules &rules, const std::function<std::string(uint32_t)> &name_of,
             Effort &work);

} // namespace recua
