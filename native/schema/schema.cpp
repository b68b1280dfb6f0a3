// Limits for the conversion of schemas, and for the JSON that llama.cpp gets.
#include "schema/schema.h"

#include "cancelled.h"

#include <algorithm>
#include <random>

namespace recua::schema {

namespace {

thread_local Budget *current = nullptr;
thread_local const volatile int32_t *watched = nullptr;

} // namespace

Watch::Watch(const volatile int32_t *cancelled) : outer(watched) { watched = cancelled; }
Watch::~Watch() { watched = outer; }

void Budget::step(size_t count) {
  throw_if_cancelled(watched);
  steps += count;
  if (steps > most_steps) throw Refusal("", "The schema is too large or too complex: its conversion would take over " + std::to_string(most_steps) + " steps.");
}

void Budget::write(size_t count) {
  bytes += count;
  if (bytes > most_bytes) throw Refusal("", "The schema is too large or too complex: its grammar would have over " + std::to_string(most_bytes) + " bytes.");
}

const std::string &mark_of_rules() {
  static const std::string mark = [] {
    std::random_device random;
    return "recua-rules-" + std::to_string(random()) + std::to_string(random());
  }();
  return mark;
}

Session::Session() : outer(current) { current = &budget; }
Session::~Session() { current = outer; }
Budget *current_budget() { return current; }

// Each `{` counts its names; llama.cpp compares every new name with those before it.
void check_json(const std::string &text, const char *code, const std::string &name) {
  constexpr size_t most_depth = 128;
  constexpr size_t most_names = 11'000; // in a single object
  constexpr size_t most_comparisons = most_names * (most_names + 1) / 2;
  struct Level {
    bool object;
    size_t names;
  };
  std::vector<Level> levels;
  size_t comparisons = 0;
  for (size_t at = 0; at < text.size(); at++) {
    switch (text[at]) {
      case '"':
        for (at++; at < text.size() && text[at] != '"'; at++) {
          if (text[at] == '\\') at++;
        }
        break;
      case '{': case '[':
        levels.push_back({text[at] == '{', 0});
        if (levels.size() > most_depth) throw CodedError(code, "Expected JSON of at most " + std::to_string(most_depth) + " levels in " + name + ", got more.");
        break;
      case '}': case ']':
        if (!levels.empty()) levels.pop_back();
        break;
      case ':':
        if (levels.empty() || !levels.back().object) break;
        comparisons += ++levels.back().names;
        if (comparisons > most_comparisons) {
          throw CodedError(code, "Expected at most " + std::to_string(most_names) + " names in an object of " + name + ", fewer if several objects are that large; got more.");
        }
        break;
      default: break;
    }
  }
}

} // namespace recua::schema
