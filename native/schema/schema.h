// JSON schemas → grammars, in counted steps. Schemas of answers come here directly, those of tools
// through llama.cpp's chat parsers, which call the hooks of native/llama-common. The language of a
// schema is that of llama.cpp's own converter wherever that is correct. Every keyword that cannot
// be enforced is listed by its JSON pointer; none is dropped silently. Any thread.
#pragma once

#include "coded_error.h"

#if defined(__GNUC__)
// llama.cpp inspects the types of objects made here, so both sides must share their type
// information.
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
  int32_t tool = -1; // the tool whose parameters contain it; -1: the answer's schema
};

// Thrown for a schema that cannot become a grammar.
struct Refusal : CodedError {
  std::string pointer;
  Refusal(std::string pointer, const std::string &why) : CodedError("invalid_schema", why), pointer(std::move(pointer)) {}
};

// Thrown for schemas that must apply together although no value matches them all.
struct Contradiction : Refusal {
  using Refusal::Refusal;
};

// Runs a conversion. If the schema is refused, the error says where, and carries the tool's index.
template <typename Work>
auto refusing(int32_t tool, Work &&work) -> decltype(work()) {
  try {
    return work();
  } catch (const Refusal &refusal) {
    const std::string place = refusal.pointer.empty() ? "" : " at #" + refusal.pointer;
    throw CodedError(refusal.code, "The JSON schema cannot be enforced" + place + ". " + refusal.what(), tool);
  }
}

// Limits of one conversion, the same on every machine.
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

// While a Watch lives, the steps of this thread throw `cancelled` once the flag is not 0.
class Watch {
public:
  explicit Watch(const volatile int32_t *cancelled);
  ~Watch();
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;

private:
  const volatile int32_t *outer;
};

// While a Session lives, all conversions of this thread share its budget.
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

// A number as it was written. `whole` has no leading zeros, `fraction` no trailing ones.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction;
  bool is_zero() const { return whole == "0" && fraction.empty(); }
};
struct Bounds {
  std::optional<Decimal> low, high;
  bool above_low = false, below_high = false; // the bound itself is excluded
  bool any() const { return low || high; }
};
// Negative if a < b, 0 if they are equal.
int compare(const Decimal &a, const Decimal &b);
// Nothing if the number has more digits than bounds may have.
std::optional<Decimal> read_decimal(const common_json &number);
// A GBNF expression; nothing if no such number exists.
std::optional<std::string> integer_range(const Bounds &bounds);
std::optional<std::string> number_range(const Bounds &bounds);

// llama.cpp's nodes, with the keywords that they lack.
struct Integer : common_chat_schema_integer {
  Bounds bounds;
  unsigned multiple = 0;
};
struct Number : common_chat_schema_number {
  Bounds bounds;
  unsigned decimals = 0; // at most this many; 0: any number
};
struct Text : common_chat_schema_string {
  std::string follows; // the pattern that is enforced: its own, or its format's
  std::string rules;   // the rule that replaces all of this, made elsewhere
};
// The secret keyword that names a text's rule.
const std::string &mark_of_rules();
struct Tuple : common_chat_schema_tuple {
  common_chat_schema_ptr rest; // schema of the items after these; null: none
  int min_items = 0, max_items = -1;
};

// Throws Refusal. `losses` may be null.
common_chat_schema_document read(const common_json &schema, Budget &budget, std::vector<Loss> *losses);
std::string grammar_of(const common_chat_schema_document &document, Budget &budget);
// Converts a schema's text to a grammar.
std::string convert(const std::string &schema, std::vector<Loss> *losses);
// What a chat format lets the model write, whatever a tool's parameters say.
struct Freedom {
  bool texts = false;  // string arguments are written unquoted: any text
  bool values = false; // any values of arguments
  bool names = false;  // arguments of any name
  bool fewer = false;  // required arguments may be missing
};
// Makes the same checks for a schema that goes through llama.cpp.
void check(const common_json &schema, const Freedom &freedom, std::vector<Loss> &losses);
// Throws if llama.cpp would take too long to find the value types of a node.
void count_walks(const common_chat_schema_document &document, Budget &budget);
// Names of the properties that may be strings, but not just any string.
std::vector<std::string> constrained_texts(const common_chat_schema_document &document, Budget &budget);
// Names of the properties that have not just any value.
std::vector<std::string> constrained_values(const common_chat_schema_document &document);
bool requires_some(const common_chat_schema_document &document);
std::string escaped(const std::string &name); // as a part of a JSON pointer

bool is_annotation(const std::string &keyword);

// Makes a rule of an expression and returns its name.
using NameRule = std::function<std::string(const std::string &)>;

// An ECMAScript pattern as an expression over the characters of a JSON string, without the quotes.
// Throws InvalidPattern if it is not a valid pattern, and std::runtime_error with the reason if no
// grammar can follow it.
struct InvalidPattern : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Limits the length of the texts to `within`, if the pattern is simple enough.
struct Length {
  long long min = 0, max = 0; // in characters; max < 0: unlimited
};
struct Followed {
  std::string expression;
  bool held; // whether all of its texts have such a length
};
Followed pattern_expression(const std::string &pattern, const Length &within, Budget &budget, const NameRule &name_rule);
// The pattern of a string format that llama.cpp does not know; null if there is none.
const char *format_pattern(const std::string &format);

// Repeats `item`; counts that are too large for the grammar's parser are composed. max < 0:
// unlimited.
std::string repeat(const std::string &item, size_t min, long long max, const NameRule &name_rule);
// A quoted GBNF literal.
std::string literal(const std::string &text);

// Limits the JSON that llama.cpp's reader may get: for each name the reader searches the names of
// its object, and code that handles the values recurses. Throws `code`.
void check_json(const std::string &text, const char *code, const std::string &name);

// Call once, before any conversion: makes llama.cpp's chat parsers use this converter.
void install();

} // namespace recua::schema
