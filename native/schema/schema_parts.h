// Shared and private parts of the schema readers (schema_read, schema_scalars, schema_pointer,
// schema_merge).
#pragma once

#include "schema/schema.h"

#include <set>

namespace recua::schema {

using Node = common_chat_schema_ptr;

constexpr size_t longest_name = 1000;    // bytes of a property's name
constexpr size_t longest_pointer = 4000; // bytes of all names on the path to a schema
constexpr size_t most_values = 10'000;   // in one enum

[[noreturn]] inline void fail(const std::string &pointer, const std::string &message) { throw Refusal(pointer, message); }
std::string shorten(const std::string &text);
void check_name(const std::string &name, const std::string &pointer);

// The JSON schema type of a value; "integer" for every number without a fraction.
std::string type_of(const common_json &value);
// The type that each assertion applies to; it does not restrict other values.
const std::map<std::string, std::string> &assertions();
// Whether the schema asserts more than these keywords do.
bool asserts_beside(const common_json &schema, const std::set<std::string> &keywords);
// The type that a schema without `type` is about; '' is any value.
std::string guess_type(const common_json &schema);

// The JSON pointer that a schema's $ref names.
std::string pointer_of(const common_json &schema, const std::string &pointer);
// The schema at a JSON pointer. `where`: the place that refers to it.
const common_json *find(const common_json &root, const std::string &pointer, const std::string &where, Budget &budget);
// Whether no value can match two of the schemas, as far as that is easy to see: different types or
// constants.
bool apart(const std::vector<const common_json *> &schemas, Budget &budget);

// Collects unenforced keywords, each once. `list` may be null.
struct Losses {
  std::vector<Loss> *list;
  void add(const std::string &pointer, const std::string &why) const;
};

// The cost of a copy, in steps.
size_t size_of(const common_json &value);

// Merges several schemas that all apply into one, as far as keywords can express that.
struct Part {
  const common_json *schema;
  std::string pointer;
};
common_json merge(const std::vector<Part> &parts, Budget &budget, const Losses &losses);

// The value of a keyword that counts something; `missing` if it is absent.
int count(const common_json &schema, const char *keyword, const std::string &pointer, int missing);
void check_order(int min, int max, const char *low, const char *high, const std::string &pointer);
Node read_values(const common_json &schema, const std::vector<std::string> &types, const std::string &pointer, Budget &budget, const Losses &losses);
Node read_text(const common_json &schema, const std::string &pointer, Budget &budget, const Losses &losses);
Node read_integer(const common_json &schema, const std::string &pointer, const Losses &losses);
Node read_number(const common_json &schema, const std::string &pointer, const Losses &losses);

} // namespace recua::schema
