#include "jinja_bounds.h"

#include "jinja/value.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_set>
#include <vector>

namespace recua_jinja {

namespace {

// Prompts of a thousand messages and forty tools take up to some millions of steps, about 1 µs
// each.
constexpr uint64_t most_steps = 10000000;
constexpr size_t most_text = size_t(512) << 20;
// Thread stacks have at least 2 MiB.
constexpr size_t most_stack = 512u << 10;
constexpr size_t bytes_of_part = 48; // texts are lists of parts, each with this overhead
constexpr size_t most_range = 100000;
constexpr size_t most_width = 1000;
constexpr size_t most_tokens = 30000;
constexpr uint64_t steps_of_container = 5;
constexpr uint64_t bytes_moved_in_a_step = 16384;

struct State {
  size_t sessions = 0;
  const char *stack = nullptr;
  uint64_t steps = 0;
  size_t text = 0;
  std::unordered_set<std::string> variables;
  std::vector<jinja::value> kept;
};

thread_local State state;

[[noreturn]] void refuse(const char *why) {
  throw std::runtime_error(std::string("the chat template ") + why);
}

bool counts() { return state.sessions > 0; }

// The cost of checking whether nested tuples can be keys grows with the number of paths through
// them.
bool nests_tuples(const jinja::value &value, int levels) {
  if (!jinja::is_val<jinja::value_tuple>(value)) return false;
  if (levels == 0) return true;
  return std::any_of(value->val_arr.begin(), value->val_arr.end(), [&](const jinja::value &one) { return nests_tuples(one, levels - 1); });
}

} // namespace

Session::Session() {
  char here = 0;
  if (state.sessions++ == 0) state.stack = &here;
}

Session::~Session() {
  if (--state.sessions > 0) return;
  // The last made first: contained values are then still held by values made earlier.
  auto kept = std::move(state.kept);
  state = {};
  while (!kept.empty()) {
    auto value = std::move(kept.back());
    kept.pop_back();
    if (auto *object = dynamic_cast<jinja::value_object_t *>(value.get())) object->unordered.clear();
    value->val_arr.clear();
    value->val_obj.clear();
  }
}

void enter() {
  if (!counts()) return;
  const char here = 0;
  const auto used = state.stack > &here ? state.stack - &here : &here - state.stack;
  if (static_cast<size_t>(used) > most_stack) refuse("nests too deep: a macro may call itself endlessly");
  step(1);
}

void step(uint64_t steps) {
  if (!counts()) return;
  state.steps += std::min(steps, most_steps);
  if (state.steps > most_steps) refuse("does not finish within the allowed number of steps");
}

void text(size_t bytes) {
  if (!counts()) return;
  state.text += std::min(bytes, most_text);
  if (state.text > most_text) refuse("writes more text than allowed");
}

void text(const jinja::string &written) { text(written.length() + bytes_of_part * written.parts.size()); }

void made(const jinja::value &value) {
  if (!counts() || !value) return;
  if (jinja::is_val<jinja::value_string>(value)) return text(value->val_str);
  if (jinja::is_val<jinja::value_tuple>(value) && nests_tuples(value, 3)) refuse("has tuples within tuples within tuples");
  // Values with other owners were kept when they were made.
  if (value.use_count() > 1 || !(jinja::is_val<jinja::value_array>(value) || jinja::is_val<jinja::value_object>(value))) return;
  step(steps_of_container + value->val_arr.size() / 16 + value->val_obj.size() / 8);
  state.kept.push_back(value);
}

void variable(const std::string &name) {
  if (counts()) state.variables.insert(name);
}

void scope() { step(8 + state.variables.size()); }

void range(int64_t start, int64_t stop, int64_t steps) {
  if (!counts()) return;
  constexpr int64_t most = int64_t(1) << 53;
  const auto is_large = [](int64_t value) { return value > most || value < -most; };
  if (is_large(start) || is_large(stop) || is_large(steps)) refuse("has a range of impossible numbers");
  const int64_t count = steps > 0 ? (stop - start) / steps : (start - stop) / -steps;
  if (count > static_cast<int64_t>(most_range)) refuse("has a range of more than 100000 numbers");
  if (count > 0) step(static_cast<uint64_t>(count));
}

void divisor(int64_t number, int64_t by) {
  if (by == 0 || (by == -1 && number == INT64_MIN)) refuse("divides by 0");
}

void width(int64_t columns) {
  if (columns < 0 || columns > static_cast<int64_t>(most_width)) refuse("indents by more than 1000 columns, or by a negative number");
}

void rewrite(const std::string &text, const std::string &from, size_t put) {
  if (!counts()) return;
  size_t found = from.empty() ? text.size() + 1 : 0;
  if (!from.empty()) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + from.size())) found++;
  }
  step(found * (1 + text.size() / bytes_moved_in_a_step));
  if (put > 0 && found > most_text / put) refuse("writes more text than allowed");
  recua_jinja::text(text.size() + found * put);
}

void tokens(size_t count) {
  if (counts() && count > most_tokens) refuse("is too long: it has more than 30000 words and symbols");
}

} // namespace recua_jinja
