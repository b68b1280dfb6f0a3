// Which characters the elements on top of stacks take.
#include "grammar/stacks.h"

#include <algorithm>
#include <unordered_map>

namespace recua {

namespace {

using Kind = GrammarRules::Kind;

constexpr size_t low_characters = 2048; // characters of one or two bytes

} // namespace

void Stacks::fill_low_classes() {
  const auto &bounds = rules->bounds;
  if (bounds.size() <= UINT16_MAX) {
    low_classes.resize(low_characters);
    size_t current = 0;
    for (uint32_t character = 0; character < low_characters; character++) {
      while (current + 1 < bounds.size() && bounds[current + 1] <= character) current++;
      low_classes[character] = static_cast<uint16_t>(current);
    }
  }
}

size_t Stacks::class_of(uint32_t character) const {
  if (character < low_classes.size()) return low_classes[character];
  const auto &bounds = rules->bounds;
  return static_cast<size_t>(std::upper_bound(bounds.begin(), bounds.end(), character) -
                             bounds.begin()) -
         1;
}

void Stacks::index_by_class(Id id, Effort &work) {
  const Set set = sets[id];
  if (by_class.count(key_of(id, UINT32_MAX)) > 0) return;
  // Nothing is kept before all is known: later requests share what is kept.
  work.spend((set.end - set.begin) * 4u);
  grew((set.end - set.begin) * 8u);
  std::unordered_map<uint32_t, std::vector<uint32_t>> single;
  std::vector<uint32_t> several;
  for (uint32_t at = set.begin; at < set.end; at++) {
    const auto &element = rules->elements[entries[at].element];
    if (element.kind == Kind::character)
      single[static_cast<uint32_t>(class_of(element.value))].push_back(at);
    else if (element.kind == Kind::set)
      several.push_back(at);
  }
  for (auto &[known, list] : single) by_class[key_of(id, known)] = std::move(list);
  by_class[key_of(id, UINT32_MAX)] = std::move(several);
}

bool Stacks::matches(uint32_t at, uint32_t character) const {
  const auto &element = rules->elements[at];
  if (element.kind == Kind::character) return element.value == character;
  if (element.kind != Kind::set) return false;
  const auto &set = rules->sets[element.value];
  const auto begin = rules->ranges.begin() + set.begin;
  const auto end = rules->ranges.begin() + set.end;
  const auto behind = std::upper_bound(
      begin, end, character, [](uint32_t value, const auto &range) { return value < range.first; });
  return (behind != begin && character <= (behind - 1)->last) != set.negated;
}

// Like llama.cpp: a negated set refuses a beginning that any of its characters shares.
bool Stacks::set_may_begin(const GrammarRules::Element &element, uint32_t low,
                           uint32_t high) const {
  const auto &set = rules->sets[element.value];
  const auto begin = rules->ranges.begin() + set.begin;
  const auto end = rules->ranges.begin() + set.end;
  const auto behind = std::upper_bound(
      begin, end, high, [](uint32_t value, const auto &range) { return value < range.first; });
  return (behind != begin && low <= (behind - 1)->last) != set.negated;
}

bool Stacks::may_begin(Id from, uint32_t value, int32_t remaining, Effort &work) {
  uint32_t low = value << (remaining * 6);
  uint32_t high = low | ((1u << (remaining * 6)) - 1);
  if (low == 0 && remaining == 2) low = 1u << 11;
  if (low == 0 && remaining == 3) low = 1u << 16;
  if (low == 0xD000 && remaining == 2) high = 0xD7FF; // without surrogates
  high = std::min(high, 0x10FFFFu);
  const bool many = sets[from].end - sets[from].begin > wide;
  const uint64_t key = key_of(from, (static_cast<uint32_t>(remaining) << 24) | value);
  if (many) {
    const auto found = beginnings.find(key);
    if (found != beginnings.end()) return found->second;
  }
  bool fits = false;
  for (uint32_t at = sets[from].begin; at < sets[from].end && !fits; at++) {
    work.spend();
    const auto &element = rules->elements[entries[at].element];
    if (element.kind == Kind::character)
      fits = low <= element.value && element.value <= high;
    else if (element.kind == Kind::set)
      fits = set_may_begin(element, low, high);
  }
  if (many) {
    grew(48);
    beginnings.emplace(key, fits);
  }
  return fits;
}

} // namespace recua
