// Repetitions as rules. A few are written out one after the other, as in llama.cpp; many are
// composed of twos, fours, eights, so that any number is cheap.
#include "grammar/gbnf.h"

namespace recua {

namespace {

using Element = GrammarRules::Element;
using Kind = GrammarRules::Kind;
using Elements = std::vector<Element>;

constexpr uint64_t written_out = 4096; // elements
constexpr Element alternative{Kind::alternative, 0};
constexpr Element end{Kind::end, 0};

void append(Elements &to, const Elements &from) { to.insert(to.end(), from.begin(), from.end()); }

Element add(const NewParts &parts, Elements elements) {
  elements.push_back(end);
  const uint32_t part = parts.make();
  parts.define(part, std::move(elements));
  return {Kind::rule, part};
}

// One or the other.
Element add(const NewParts &parts, Elements one, const Elements &other) {
  one.push_back(alternative);
  append(one, other);
  return add(parts, std::move(one));
}

// An item 1, 2, 4 … times, up to `count`; each is twice the one before.
Elements powers(Element item, uint64_t count, const NewParts &parts) {
  Elements doubled{item};
  while ((uint64_t{1} << doubled.size()) <= count)
    doubled.push_back(add(parts, {doubled.back(), doubled.back()}));
  return doubled;
}

Elements exactly(Element item, uint64_t count, const NewParts &parts) {
  Elements sequence;
  if (count == 0) return sequence;
  const Elements doubled = powers(item, count, parts);
  for (size_t bit = doubled.size(); bit-- > 0;) {
    if ((count >> bit) & 1) sequence.push_back(doubled[bit]);
  }
  return sequence;
}

// Up to 2^n - 1 items: 2^(n-1) and up to 2^(n-1) - 1 more, or just the latter. Up to any other
// number: its highest bit and up to the rest, or fewer than its highest bit.
Elements at_most(Element item, uint64_t count, const NewParts &parts) {
  if (count == 0) return {};
  const Elements doubled = powers(item, count, parts);
  std::vector<Elements> below{{}}; // by n: up to 2^n - 1
  for (size_t n = 1; n < doubled.size(); n++) {
    Elements more{doubled[n - 1]};
    append(more, below.back());
    below.push_back({add(parts, std::move(more), below.back())});
  }
  Elements rest;
  for (size_t bit = 0; bit < doubled.size(); bit++) {
    if (((count >> bit) & 1) == 0) continue;
    Elements more{doubled[bit]};
    append(more, rest);
    rest = {add(parts, std::move(more), below[bit])};
  }
  return rest;
}

} // namespace

Elements repeat_item(Elements item, uint64_t least, uint64_t most, const NewParts &parts,
                     Effort &work) {
  const uint64_t optional = most == unlimited ? 0 : most - least;
  const bool plain =
      item.size() * least <= written_out && (item.size() + 3) * optional <= written_out;
  if (!plain && item.size() > 1) item = {add(parts, std::move(item))};
  work.spend(plain ? item.size() * (least + optional + 1) : 1024);
  Elements made;
  if (plain) {
    for (uint64_t i = 0; i < least; i++) append(made, item);
  } else {
    made = exactly(item.front(), least, parts);
  }
  Elements rest;
  if (most == unlimited) {
    const uint32_t loop = parts.make();
    rest = {{Kind::rule, loop}};
    append(item, rest);
    append(item, {alternative, end});
    parts.define(loop, std::move(item));
  } else if (plain) {
    for (uint64_t i = 0; i < optional; i++) {
      Elements chain = item;
      append(chain, rest);
      rest = {add(parts, std::move(chain), {})};
    }
  } else {
    rest = at_most(item.front(), optional, parts);
  }
  append(made, rest);
  return made;
}

} // namespace recua
