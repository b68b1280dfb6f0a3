// JSON schemas → grammars, in counted steps. Answers' schemas come here directly, tools' through
// llama.cpp's chat parsers, which call the hooks of native/llama-common. The language of a schema
// is the one of llama.cpp's own converter where that is right. What cannot be enforced is listed by
// its JSON pointer; nothing is left out without a word. Any thread.
#pragma once

#include "coded_error.h"

#if defined(__GNUC__)
// llama.cpp asks for the type of what is made here: both sides must mean the same types.
#pragma GCC visibility push(default)
#endif
#include "json-schema.h"
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace recua::schema {

// A keyword that the grammar does not enforce.
struct Loss {
  std::string pointer; // of the keyword
  std::string why;
  int32_t tool = -1; // whose parameters it is in; -1 is the answer's schema
};

// A schema of which no grammar is made.
struct Refusal : CodedError {
  std::string pointer;
  Refusal(std::string pointer, const std::string &why) : CodedError("invalid_schema", why), pointer(std::move(pointer)) {}
};

// Runs a conversion. Where the schema is refused, the error says where, and the tool's index is the
// error's.
template <typename Work>
auto refusing(int32_t tool, Work &&work) -> decltype(work()) {
  try {
    return work();
  } catch (const Refusal &refusal) {
    const std::string place = refusal.pointer.empty() ? "" : " at #" + refusal.pointer;
    throw CodedError(refusal.code, "The JSON schema cannot be enforced" + place + ". " + refusal.what(), tool);
  }
}

// What one conversion may cost. It is the same on every machine.
class Budget {
public:
  static constexpr size_t most_steps = 500'000;
  static constexpr size_t most_bytes = 4u << 20; // of grammar
  void step(size_t count = 1);
  void write(size_t bytes);

private:
  size_t steps = 0;
  size_t bytes = 0;
};

// While one lives, all conversions of this thread share its budget.
class Session {
public:
  Session();
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

private:
  Budget budget;
  Budget *outer;
};
Budget *current_budget();

// A number as it was written: `whole` has no leading zeros, `fraction` no trailing ones.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction;
  bool is_zero() const { return whole == "0" && fraction.empty(); }
};
struct Bounds {
  std::optional<Decimal> low, high;
  bool above_low = false, below_high = false; // the bound itself is not allowed
  bool any() const { return low || high; }
};
// Negative where a < b, 0 where they are equal.
int compare(const Decimal &a, const Decimal &b);
// Nothing where the number has more digits than bounds may have.
std::optional<Decimal> read_decimal(const common_json &number);
// An expression; nothing where no such number exists.
std::optional<std::string> integer_range(const Bounds &bounds);
std::optional<std::string> number_range(const Bounds &bounds);

// llama.cpp's nodes, and what those leave out.
struct Integer : common_chat_schema_integer {
  Bounds bounds;
  unsigned multiple = 0;
};
struct Number : common_chat_schema_number {
  Bounds bounds;
  unsigned decimals = 0; // at most so many; 0 is any number of them
};
struct Text : common_chat_schema_string {
  std::string follows; // the pattern that is enforced: its own, or its format's
  std::string rules;   // the rule that it keeps to instead, which another makes
};
// The keyword, which nobody can know, that names a text's rule.
const std::string &mark_of_rules();
struct Tuple : common_chat_schema_tuple {
  common_chat_schema_ptr rest; // of what comes behind the items; null is nothing
  int min_items = 0, max_items = -1;
};

// Throws Refusal. `losses` may be null.
common_chat_schema_document read(const common_json &schema, Budget &budget, std::vector<Loss> *losses);
std::string grammar_of(const common_chat_schema_document &document, Budget &budget);
// All of it: text → grammar.
std::string convert(const std::string &schema, std::vector<Loss> *losses);
// Makes the same checks for a schema that goes through llama.cpp. `free_texts` is whether arguments
// that are texts are written as they are, with nothing that holds them to the schema.
void check(const common_json &schema, bool free_texts, std::vector<Loss> &losses);
// Throws where llama.cpp would take too long to find out what types of values a node has.
void count_walks(const common_chat_schema_document &document, Budget &budget);
// Names of the properties that may be texts, and not any text.
std::vector<std::string> constrained_texts(const common_chat_schema_document &document, Budget &budget);
std::string escaped(const std::string &name); // as a part of a JSON pointer

// One schema that follows several, as far as keywords can say so.
struct Part {
  const common_json *schema;
  std::string pointer;
};
common_json merge(const std::vector<Part> &parts, Budget &budget, std::vector<Loss> *losses);
bool is_annotation(const std::string &keyword);

// Makes a rule of an expression and gives its name.
using NameRule = std::function<std::string(const std::string &)>;

// An ECMAScript pattern as an expression over the characters of a JSON string, quotes left out.
// Throws std::runtime_error with the reason: in `invalid` where it is no pattern, else it is one
// that no grammar can follow.
struct InvalidPattern : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Its texts are as long as `within` says where a simple pattern can be held to that.
struct Length {
  long long min = 0, max = 0; // in characters; max < 0 is without end
};
struct Followed {
  std::string expression;
  bool held; // whether all of its texts are
};
Followed pattern_expression(const std::string &pattern, const Length &within, Budget &budget, const NameRule &name_rule);
// The pattern of a format of strings that llama.cpp does not know; null where there is none.
const char *format_pattern(const std::string &format);

// `item` so many times; counts that are too large for the grammar's parser are put together.
// Infinite: max < 0.
std::string repeat(const std::string &item, size_t min, long long max, const NameRule &name_rule);
// "…" of GBNF.
std::string literal(const std::string &text);

// Bounds what llama.cpp's JSON reader may be given: it looks through an object's names for each of
// them, and what handles its values recurses. Throws `code`.
void check_json(const std::string &text, const char *code, const std::string &name);

// Once, before any conversion: llama.cpp's chat parsers convert by this.
void install();

} // namespace recua::schema
