// What the readers of schemas share (schema_read, schema_scalars, schema_pointer, schema_merge).
// Private to them.
#pragma once

#include "schema/schema.h"

#include <set>

namespace recua::schema {

using Node = common_chat_schema_ptr;

constexpr size_t longest_name = 1000;    // bytes of a property
constexpr size_t longest_pointer = 4000; // of all names on the way to a schema
constexpr size_t most_values = 10'000;   // of one enum

[[noreturn]] inline void fail(const std::string &pointer, const std::string &message) { throw Refusal(pointer, message); }
std::string shorten(const std::string &text);
void check_name(const std::string &name, const std::string &pointer);

// A JSON schema type of a value; "integer" for every number without a fraction.
std::string type_of(const common_json &value);
// Which values each assertion is about; it says nothing of others.
const std::map<std::string, std::string> &assertions();
// Whether it says more than these keywords do.
bool asserts_beside(const common_json &schema, const std::set<std::string> &keywords);
// What a schema without a type is about; '' is any value.
std::string guess_type(const common_json &schema);

// The JSON pointer that a schema's $ref names.
std::string pointer_of(const common_json &schema, const std::string &pointer);
// The schema at a JSON pointer. `where` is who asks.
const common_json *find(const common_json &root, const std::string &pointer, const std::string &where, Budget &budget);
// Whether no value can follow two of the schemas, as far as that is easy to see: other types, or
// another constant.
bool apart(const std::vector<const common_json *> &schemas, Budget &budget);

// What is lost, each once. `list` may be null.
struct Losses {
  std::vector<Loss> *list;
  void add(const std::string &pointer, const std::string &why) const;
};

// A keyword that counts something; `missing` where it is not there.
int count(const common_json &schema, const char *keyword, const std::string &pointer, int missing);
void check_order(int min, int max, const char *low, const char *high, const std::string &pointer);
Node read_values(const common_json &schema, const std::vector<std::string> &types, const std::string &pointer, Budget &budget, const Losses &losses);
Node read_text(const common_json &schema, const std::string &pointer, Budget &budget, const Losses &losses);
Node read_integer(const common_json &schema, const std::string &pointer, const Losses &losses);
Node read_number(const common_json &schema, const std::string &pointer, const Losses &losses);

} // namespace recua::schema
