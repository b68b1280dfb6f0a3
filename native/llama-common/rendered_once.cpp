#include "rendered_once.h"

#include "jinja_bounds.h"

#include <deque>
#include <utility>

namespace recua_jinja {

namespace {

// The prompt with and without the answer's beginning, each as some parsers change the messages.
constexpr size_t most_kept = 4;
constexpr size_t most_bytes = 32u << 20; // of one input

struct Rendered {
  const void *chat_template;
  bool marks;
  std::string input, text;
};

thread_local std::deque<Rendered> kept;

} // namespace

std::string rendered_once(const void *chat_template, bool marks, const std::function<std::string()> &input,
                          const std::function<std::string()> &render) {
  if (!in_session()) return render();
  std::string asked = input();
  if (asked.size() > most_bytes) return render();
  for (const Rendered &one : kept) {
    if (one.chat_template == chat_template && one.marks == marks && one.input == asked) return one.text;
  }
  std::string text = render();
  if (kept.size() == most_kept) kept.pop_front();
  kept.push_back({chat_template, marks, std::move(asked), text});
  return text;
}

void forget_rendered() { kept.clear(); }

} // namespace recua_jinja
