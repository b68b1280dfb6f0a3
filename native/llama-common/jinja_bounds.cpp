#include "jinja_bounds.h"

#include "jinja/value.h"
#include "rendered_once.h"

#ifdef _WIN32
#define NOMINMAX
#include <windows.h>
#else
#include <ctime>
#endif

#include <algorithm>
#include <stdexcept>
#include <typeinfo>
#include <unordered_set>
#include <vector>

namespace recua_jinja {

namespace {

// A step takes about 1 µs. One function that would take half a minute is refused before it starts.
constexpr uint64_t most_sixteenths_at_once = 500000000;
constexpr size_t most_memory = size_t(512) << 20;
// Thread stacks have at least 2 MiB.
constexpr size_t most_stack = 512u << 10;
constexpr size_t bytes_of_part = 48; // texts are lists of parts, each with this overhead
constexpr size_t most_range = 100000;
constexpr size_t most_width = 1000;
constexpr size_t most_tokens = 30000;
constexpr uint64_t steps_of_container = 5;
constexpr uint64_t sixteenths_between_looks = 65536; // at the clock, and the flag that cancels
constexpr size_t bytes_of_value = 112;         // a number in a list
constexpr size_t bytes_of_entry = 96;          // in an object
constexpr size_t least_before_sweep = 65536;
constexpr size_t least_tracked = 1024;
constexpr uint64_t bytes_moved_in_a_step = 16384;
constexpr uint64_t bytes_moved_in_a_sixteenth = bytes_moved_in_a_step / 16;
constexpr uint64_t values_between_counts = 1024;
constexpr size_t most_in_tuples = 10000;
constexpr size_t most_sample = 256u << 10;
constexpr uint64_t bytes_parsed_in_a_sixteenth = 4;
constexpr size_t most_printed_levels = 1000; // each takes stack twice: to count, and to print

// A text or container, and what it takes. Containers are held: their own destructors would recurse
// as deep as they are nested, and would never free cycles.
struct Tracked {
  jinja::value container;
  std::weak_ptr<jinja::value_t> text;
  size_t bytes;
};

struct State {
  size_t sessions = 0;
  const char *exceeded = nullptr; // a limit
  bool cancelled = false;
  const char *stack = nullptr;
  double started = 0; // thread_seconds() then
  uint64_t sixteenths = 0; // of a step
  std::unordered_set<std::string> variables;
  std::vector<Tracked> tracked; // values that statements made
  size_t tracked_bytes = 0;     // of them
  size_t coming_bytes = 0;      // of the value that a function is making
  size_t sweep_at = least_before_sweep;
};

thread_local State state;
thread_local Watch *watch = nullptr; // the living one

[[noreturn]] void refuse(const char *why) { throw std::runtime_error(std::string("the chat template ") + why); }

// Ends the session: llama.cpp tries a template that fails with other messages, and it would only
// exceed the limit again.
[[noreturn]] void exceed(const char *why) {
  state.exceeded = why;
  refuse(why);
}

// What this thread has computed.
double thread_seconds() {
#ifdef _WIN32
  FILETIME made, ended, kernel, user;
  GetThreadTimes(GetCurrentThread(), &made, &ended, &kernel, &user);
  const auto ticks = [](const FILETIME &time) { return static_cast<double>(uint64_t(time.dwHighDateTime) << 32 | time.dwLowDateTime); };
  return (ticks(kernel) + ticks(user)) / 1e7;
#else
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
#endif
}

bool counts() { return state.sessions > 0; }

bool is_tuple(const jinja::value_t *value) { return dynamic_cast<const jinja::value_tuple_t *>(value) != nullptr; }

// The values in a tuple and in the tuples within it, by every path: hashing and comparing visit
// each path. Counts until the limit is exceeded.
size_t count_values(const jinja::value_t &tuple, int levels = 3) {
  if (levels == 0) refuse("has tuples within tuples within tuples");
  size_t count = tuple.val_arr.size();
  for (const jinja::value &one : tuple.val_arr) {
    if (count > most_in_tuples) refuse("has tuples of more than 10000 values");
    if (is_tuple(one.get())) count += count_values(*one, levels - 1);
  }
  return count;
}

} // namespace

Session::Session() {
  char here = 0;
  if (state.sessions++ > 0) return;
  state.stack = &here;
  state.started = thread_seconds();
}

Session::~Session() {
  if (--state.sessions > 0) return;
  if (watch != nullptr) {
    watch->spent += thread_seconds() - state.started;
    watch->refused = state.exceeded != nullptr;
  }
  forget_rendered();
  // The last made first: contained values are then still held by values made earlier.
  auto tracked = std::move(state.tracked);
  state = {};
  while (!tracked.empty()) {
    auto value = std::move(tracked.back().container);
    tracked.pop_back();
    if (!value) continue;
    if (auto *object = dynamic_cast<jinja::value_object_t *>(value.get())) object->unordered.clear();
    value->val_arr.clear();
    value->val_obj.clear();
  }
}

bool in_session() { return counts(); }

void complete() {
  if (state.cancelled) refuse("was cancelled");
}

Watch::Watch(const volatile int32_t *cancelled, double seconds) : cancelled(cancelled), allowed(seconds) { watch = this; }

Watch::~Watch() { watch = nullptr; }

void enter() {
  if (!counts()) return;
  const char here = 0;
  const auto used = state.stack > &here ? state.stack - &here : &here - state.stack;
  if (static_cast<size_t>(used) > most_stack) exceed("nests too deep: a macro may call itself endlessly");
  step(1);
}

void step(uint64_t steps) { work(16 * std::min(steps, most_sixteenths_at_once)); }

void work(uint64_t sixteenths) {
  if (!counts()) return;
  if (state.exceeded != nullptr) refuse(state.exceeded);
  const uint64_t before = state.sixteenths;
  if (sixteenths > most_sixteenths_at_once) exceed("does not finish within the allowed time");
  state.sixteenths += sixteenths;
  if (before / sixteenths_between_looks == state.sixteenths / sixteenths_between_looks) return;
  if (watch != nullptr && watch->cancelled != nullptr && *watch->cancelled != 0) {
    state.cancelled = true;
    exceed("was cancelled");
  }
  const double allowed = watch == nullptr ? Watch::most_seconds : watch->allowed - watch->spent;
  if (thread_seconds() - state.started > allowed) exceed("does not finish within the allowed time");
}

void used(const jinja::value_t &value) {
  if (!counts()) return;
  size_t bytes = 0;
  for (const auto &part : value.val_str.parts) bytes += part.val.size();
  work(value.val_arr.size() + value.val_obj.size() + value.val_str.parts.size() + bytes / bytes_moved_in_a_sixteenth);
}

void compared(const jinja::value_t &a, const jinja::value_t &b) {
  if (!counts()) return;
  work(2);
  used(a);
  used(b);
  const auto add = [](const jinja::value &one) {
    if (is_tuple(one.get())) work(count_values(*one));
  };
  if (a.val_arr.empty() && a.val_obj.empty()) return;
  for (const jinja::value &one : a.val_arr) add(one);
  for (const auto &[key, one] : a.val_obj) {
    add(key);
    add(one);
  }
}

bool contains(const std::vector<jinja::value> &values, const jinja::string &wanted) {
  const std::string text = wanted.str();
  uint64_t uncounted = 0;
  bool found = false;
  for (const jinja::value &one : values) {
    const jinja::string &other = one->val_str;
    uncounted++;
    if (typeid(*one) == typeid(jinja::value_string_t) && other.length() == text.size()) {
      found = other.parts.size() == 1 ? other.parts[0].val == text : other.str() == text;
      uncounted += other.parts.size() + text.size() / bytes_moved_in_a_sixteenth;
    }
    if (found) break;
    if (uncounted < values_between_counts) continue;
    work(uncounted);
    uncounted = 0;
  }
  work(uncounted);
  return found;
}

void searched(size_t text, size_t other) {
  constexpr uint64_t most = most_sixteenths_at_once * bytes_moved_in_a_sixteenth;
  work(other > 0 && text > most / other ? most_sixteenths_at_once + 1 : text * other / bytes_moved_in_a_sixteenth);
}

namespace {

bool is_container(const jinja::value &value) {
  return jinja::is_val<jinja::value_array>(value) || jinja::is_val<jinja::value_object>(value);
}

size_t size_of(const jinja::value_t &value) {
  return bytes_of_value + value.val_str.length() + bytes_of_part * value.val_str.parts.size() +
         bytes_of_value * value.val_arr.size() + bytes_of_entry * value.val_obj.size();
}

// Whether only this file still holds it, and its destructor would not recurse.
bool is_free(const jinja::value &value) {
  const auto holds = [](const auto &pair) { return is_container(pair.second); };
  return value.use_count() == 1 && std::none_of(value->val_arr.begin(), value->val_arr.end(), is_container) &&
         std::none_of(value->val_obj.begin(), value->val_obj.end(), holds);
}

// Forgets what is gone, and measures the rest again.
void sweep() {
  auto &all = state.tracked;
  state.tracked_bytes = 0;
  all.erase(std::remove_if(all.begin(), all.end(), [](Tracked &one) {
    if (one.container ? is_free(one.container) : one.text.expired()) return true;
    if (one.container) one.bytes = size_of(*one.container);
    state.tracked_bytes += one.bytes;
    return false;
  }), all.end());
  state.sweep_at = std::max(least_before_sweep, 2 * all.size());
}

void check_memory() {
  if (state.tracked_bytes + state.coming_bytes > most_memory) sweep();
  if (state.tracked_bytes + state.coming_bytes > most_memory) exceed("takes more memory than allowed, in texts or lists");
}

void track(Tracked one) {
  if (state.tracked.size() >= state.sweep_at) sweep();
  state.tracked_bytes += one.bytes;
  state.tracked.push_back(std::move(one));
  check_memory();
}

} // namespace

void text(size_t bytes) {
  if (!counts()) return;
  work(bytes / bytes_moved_in_a_sixteenth);
  state.coming_bytes += std::min(bytes, most_memory + 1);
  check_memory();
}

void text(const jinja::string &written) { text(written.length() + bytes_of_part * written.parts.size()); }

void made(const jinja::value &value) {
  if (!counts() || !value) return;
  state.coming_bytes = 0;
  // Values with other owners were tracked when they were made.
  if (value.use_count() > 1) return;
  if (jinja::is_val<jinja::value_string>(value)) {
    // A short one that stays is a value of a list or object, which counts it.
    const size_t size = size_of(*value);
    work(size / bytes_moved_in_a_sixteenth);
    if (size >= least_tracked) track({nullptr, value, size});
    return;
  }
  if (is_tuple(value.get())) count_values(*value);
  if (!is_container(value)) return;
  step(steps_of_container + value->val_arr.size() / 16 + value->val_obj.size() / 8);
  track({value, {}, size_of(*value)});
}

namespace {

void count_printed(const jinja::value &value, size_t levels) {
  if (jinja::is_val<jinja::value_string>(value)) return text(value->val_str);
  work(1);
  if (!jinja::is_val<jinja::value_array>(value)) return;
  if (levels == 0) refuse("nests too deep: it prints lists within lists, more than 1000");
  for (const jinja::value &one : value->val_arr) count_printed(one, levels - 1);
}

} // namespace

void printed(const jinja::value &value) {
  if (counts()) count_printed(value, most_printed_levels);
}

void variable(const std::string &name) {
  if (!counts()) return;
  state.variables.insert(name);
  work(state.variables.size());
}

void scope() { step(8 + state.variables.size()); }

void range(int64_t start, int64_t stop, int64_t steps) {
  if (!counts()) return;
  constexpr int64_t most = int64_t(1) << 53;
  const auto is_large = [](int64_t value) { return value > most || value < -most; };
  if (is_large(start) || is_large(stop) || is_large(steps)) refuse("has a range of impossible numbers");
  const int64_t count = steps > 0 ? (stop - start) / steps : (start - stop) / -steps;
  if (count > static_cast<int64_t>(most_range)) refuse("has a range of more than 100000 numbers");
  if (count <= 0) return;
  step(static_cast<uint64_t>(count));
  text(bytes_of_value * static_cast<size_t>(count));
}

void divisor(int64_t number, int64_t by) {
  if (by == 0 || (by == -1 && number == INT64_MIN)) refuse("divides by 0");
}

void modulus(double by) {
  if (by == 0) refuse("divides by 0");
}

void width(int64_t columns) {
  if (columns < 0 || columns > static_cast<int64_t>(most_width)) refuse("indents by more than 1000 columns, or by a negative number");
}

void rewrite(const std::string &text, const std::string &from, size_t put) {
  if (!counts()) return;
  searched(text.size(), from.size());
  size_t found = from.empty() ? text.size() + 1 : 0;
  if (!from.empty()) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + from.size())) found++;
  }
  step(found * (1 + text.size() / bytes_moved_in_a_step));
  if (put > 0 && found > most_memory / put) exceed("takes more memory than allowed, in texts or lists");
  recua_jinja::text(text.size() + found * put);
}

void tokens(size_t count) {
  if (counts() && count > most_tokens) refuse("is too long: it has more than 30000 words and symbols");
}

std::string sample(std::string text) {
  if (counts() && text.size() > most_sample) exceed("prints more than 256 KiB for a short question");
  return text;
}

void copied(size_t bytes) { work(1 + bytes / bytes_moved_in_a_sixteenth); }

void parsed(size_t bytes) { work(1 + bytes / bytes_parsed_in_a_sixteenth); }

} // namespace recua_jinja
