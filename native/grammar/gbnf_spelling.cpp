// Removes alternatives that need a character which no token of the vocabulary has, such as NUL: an
// answer that took one could not continue. In time linear in the rules, without recursion.
#include "grammar/gbnf.h"

#include <algorithm>

namespace recua {

namespace {

using Element = GrammarRules::Element;
using Kind = GrammarRules::Kind;

constexpr uint32_t last_character = 0x10FFFF;
constexpr uint32_t none = UINT32_MAX;
constexpr uint32_t no_character = UINT32_MAX - 1;

// The lowest character of the element if tokens can spell none of its characters, `no_character` if
// it has none; otherwise `none`.
uint32_t unspelled(const GrammarRules &rules, const Element &element, const Spelled &spelled,
                   Effort &work) {
  if (element.kind == Kind::character)
    return spelled(element.value, element.value, work) ? none : element.value;
  if (element.kind != Kind::set) return none;
  const auto &set = rules.sets[element.value];
  uint32_t first = no_character;
  uint32_t next = 0; // after the ranges so far
  const auto look = [&](uint32_t from, uint32_t to) {
    if (from > to) return false;
    first = std::min(first, from);
    return spelled(from, std::min(to, last_character), work);
  };
  for (uint32_t at = set.begin; at < set.end; at++) {
    const auto &range = rules.ranges[at];
    if (!set.negated && look(range.first, range.last)) return none;
    if (set.negated && range.first > next && look(next, range.first - 1)) return none;
    next = range.last + 1;
  }
  if (set.negated && look(next, last_character)) return none;
  return first;
}

std::string name_of(uint32_t character) {
  static const char digits[] = "0123456789ABCDEF";
  std::string hex;
  for (int shift = character > 0xFFFF ? 20 : 12; shift >= 0; shift -= 4)
    hex += digits[(character >> shift) & 15];
  return "U+" + hex;
}

struct Alternative {
  uint32_t rule, begin, end; // in the rule's elements
  uint32_t lacking = 0;      // rules in it for which no text is known yet
  bool spelled = true;
};

} // namespace

void keep_spelled(std::vector<std::vector<Element>> &definitions, const GrammarRules &rules,
                  const Spelled &spelled, Effort &work) {
  const size_t count = definitions.size();
  const auto missing_in = [&](const Element &element) {
    return unspelled(rules, element, spelled, work);
  };
  uint32_t missing = none;
  for (const auto &elements : definitions) {
    work.spend(elements.size());
    for (const auto &element : elements) {
      if (missing == none) missing = missing_in(element);
    }
  }
  if (missing == none) return;

  std::vector<Alternative> all;
  std::vector<std::vector<uint32_t>> uses(count); // by rule: alternatives that refer to it
  for (uint32_t rule = 0; rule < count; rule++) {
    const auto &elements = definitions[rule];
    work.spend(elements.size());
    Alternative now{rule, 0, 0};
    for (uint32_t at = 0; at < elements.size(); at++) {
      const auto &element = elements[at];
      if (element.kind <= Kind::alternative) {
        now.end = at;
        all.push_back(now);
        now = {rule, at + 1, 0};
        continue;
      }
      if (element.kind == Kind::rule) {
        uses[element.value].push_back(static_cast<uint32_t>(all.size()));
        now.lacking++;
      }
      if (missing_in(element) != none) now.spelled = false;
    }
  }

  std::vector<bool> sound(count, false); // by rule: has a text
  std::vector<uint32_t> open;
  const auto settle = [&](const Alternative &one) {
    if (one.spelled && one.lacking == 0) open.push_back(one.rule);
  };
  for (const auto &one : all) settle(one);
  while (!open.empty()) {
    const uint32_t rule = open.back();
    open.pop_back();
    if (sound[rule]) continue;
    sound[rule] = true;
    work.spend(1 + uses[rule].size());
    for (const uint32_t use : uses[rule]) {
      all[use].lacking--;
      settle(all[use]);
    }
  }
  if (!sound[rules.root]) {
    if (missing == no_character)
      throw GrammarError("expected a root with a text, got one whose texts all need a class that "
                         "matches no character");
    throw GrammarError("expected a root that this model's tokens can spell, but all of its texts "
                       "need " +
                       name_of(missing) + " or another character that no token has");
  }
  std::vector<std::vector<Element>> kept(count);
  for (const auto &one : all) {
    if (!one.spelled || one.lacking > 0) continue;
    auto &to = kept[one.rule];
    const auto &from = definitions[one.rule];
    to.insert(to.end(), from.begin() + one.begin, from.begin() + one.end);
    to.push_back({Kind::alternative, 0});
  }
  for (auto &elements : kept) {
    if (!elements.empty()) elements.pop_back(); // behind the last alternative
    elements.push_back({Kind::end, 0});
  }
  definitions = std::move(kept);
}

} // namespace recua
