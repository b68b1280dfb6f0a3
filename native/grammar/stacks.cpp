// Sets are built from the bottom up and never change. If a set has references on top, each rule
// that they lead to is expanded once, when all its continuations are known. The order of the rules
// (gbnf_analysis.cpp) guarantees that, so all ways to one rule are merged.
#include "grammar/stacks.h"

#include <algorithm>
#include <map>

namespace recua {

namespace {

using Kind = GrammarRules::Kind;

constexpr size_t most_bytes = 256u << 20;

} // namespace

Stacks::Stacks(std::shared_ptr<const GrammarRules> of) : rules(std::move(of)) {
  index.resize(64);
  sets.push_back({0, 0, false, false, nothing, unknown, 0});
  sets.push_back({0, 0, true, false, ended, unknown, 0});
  fill_low_classes();
  size_bytes = low_classes.size() * sizeof(uint16_t) + 4096;
}

void Stacks::grew(size_t bytes) {
  size_bytes += bytes;
  if (size_bytes > most_bytes) throw TooMuchWork();
}

void Stacks::grow_index() {
  std::vector<uint32_t> larger(index.size() * 2);
  const size_t mask = larger.size() - 1;
  for (Id id = 2; id < sets.size(); id++) {
    uint64_t hash = sets[id].empty_stack ? 1 : 0;
    for (uint32_t at = sets[id].begin; at < sets[id].end; at++)
      hash = (hash ^ key_of(entries[at].element, entries[at].below)) * 0x9e3779b97f4a7c15u,
      hash ^= hash >> 29;
    size_t place = hash & mask;
    while (larger[place] != 0) place = (place + 1) & mask;
    larger[place] = id;
  }
  index = std::move(larger);
}

Stacks::Id Stacks::intern(const Entry *list, size_t count, bool empty_stack, Effort &work) {
  if (count == 0) return empty_stack ? ended : nothing;
  work.spend(8 + count);
  uint64_t hash = empty_stack ? 1 : 0;
  for (size_t i = 0; i < count; i++)
    hash = (hash ^ key_of(list[i].element, list[i].below)) * 0x9e3779b97f4a7c15u,
    hash ^= hash >> 29;
  const size_t mask = index.size() - 1;
  size_t place = hash & mask;
  for (; index[place] != 0; place = (place + 1) & mask) {
    const Set &known = sets[index[place]];
    if (known.end - known.begin != count || known.empty_stack != empty_stack) continue;
    const bool same = std::equal(list, list + count, entries.begin() + known.begin,
                                 [](const Entry &a, const Entry &b) {
                                   return a.element == b.element && a.below == b.below;
                                 });
    if (same) return index[place];
  }
  grew(sizeof(Set) + 3 * sizeof(uint32_t) + count * sizeof(Entry));
  bool tokens = false;
  if (rules->names_tokens) {
    tokens = std::any_of(list, list + count, [&](const Entry &entry) {
      return rules->elements[entry.element].kind >= Kind::token;
    });
  }
  const auto id = static_cast<Id>(sets.size());
  const auto begin = static_cast<uint32_t>(entries.size());
  entries.insert(entries.end(), list, list + count);
  sets.push_back(
      {begin, begin + static_cast<uint32_t>(count), empty_stack, tokens, unknown, unknown, 0});
  index[place] = id;
  if (sets.size() * 2 > index.size()) grow_index();
  return id;
}

// Merges two sets, and the sets below equal elements. Pending merges are kept on an explicit stack.
Stacks::Id Stacks::unite(Id a, Id b, Effort &work) {
  if (a == b || b == nothing) return a;
  if (a == nothing) return b;
  struct Merge {
    Id a, b;
    uint32_t at, bt;
    size_t from;
  };
  std::vector<Merge> open;
  std::vector<Entry> merged;
  const auto key = [](Id a, Id b) { return a < b ? key_of(a, b) : key_of(b, a); };
  const auto found = unions.find(key(a, b));
  if (found != unions.end()) return found->second;
  open.push_back({a, b, sets[a].begin, sets[b].begin, 0});
  for (;;) {
    Merge &merge = open.back();
    work.spend();
    const bool more_a = merge.at < sets[merge.a].end;
    const bool more_b = merge.bt < sets[merge.b].end;
    if (!more_a && !more_b) {
      const bool empty_stack = sets[merge.a].empty_stack || sets[merge.b].empty_stack;
      const Id made =
          intern(merged.data() + merge.from, merged.size() - merge.from, empty_stack, work);
      merged.resize(merge.from);
      grew(48);
      unions.emplace(key(merge.a, merge.b), made);
      open.pop_back();
      if (open.empty()) return made;
      continue;
    }
    const uint32_t of_a = more_a ? entries[merge.at].element : UINT32_MAX;
    const uint32_t of_b = more_b ? entries[merge.bt].element : UINT32_MAX;
    if (of_a != of_b) {
      merged.push_back(of_a < of_b ? entries[merge.at++] : entries[merge.bt++]);
      continue;
    }
    const Id below_a = entries[merge.at].below;
    const Id below_b = entries[merge.bt].below;
    Id below = below_a;
    if (below_a != below_b) {
      const auto known = unions.find(key(below_a, below_b));
      if (known == unions.end()) {
        open.push_back({below_a, below_b, sets[below_a].begin, sets[below_b].begin, merged.size()});
        continue;
      }
      below = known->second;
    }
    merge.at++;
    merge.bt++;
    merged.push_back({of_a, below});
  }
}

Stacks::Id Stacks::collect(std::vector<Entry> &list, bool empty_stack, Effort &work) {
  if (list.size() > 1) {
    work.spend(list.size() * 4);
    std::sort(list.begin(), list.end(), [](const Entry &a, const Entry &b) {
      return key_of(a.element, a.below) < key_of(b.element, b.below);
    });
    size_t kept = 0;
    for (size_t i = 1; i < list.size(); i++) {
      if (list[i].element == list[kept].element)
        list[kept].below = unite(list[kept].below, list[i].below, work);
      else
        list[++kept] = list[i];
    }
    list.resize(kept + 1);
  }
  return intern(list.data(), list.size(), empty_stack, work);
}

// Adds the continuations behind an element that was read.
void Stacks::add_behind(uint32_t element, Id below, std::vector<Entry> &list, bool &empty_stack,
                        Effort &work) {
  if (!rules->ends(element + 1)) {
    list.push_back({element + 1, below});
    return;
  }
  const Set &set = sets[below];
  work.spend(set.end - set.begin);
  list.insert(list.end(), entries.begin() + set.begin, entries.begin() + set.end);
  empty_stack = empty_stack || set.empty_stack;
}

Stacks::Id Stacks::unfold(Id id, Effort &work) {
  if (sets[id].unfolded != unknown) return sets[id].unfolded;
  const auto &elements = rules->elements;
  if (sets[id].end - sets[id].begin == 1 &&
      elements[entries[sets[id].begin].element].kind != Kind::rule)
    return sets[id].unfolded = id;
  work.spend(16);
  bool empty_stack = false;
  std::vector<Entry> tops;
  std::map<uint32_t, Pending>
      pending; // by component, so in the order of processing
  uint32_t current = unknown;
  // From an element on: adds its beginnings, and those of the elements behind it while all before
  // may be empty.
  const auto scan = [&](uint32_t element, Id below) {
    for (; !rules->ends(element); element++) {
      work.spend();
      if (elements[element].kind != Kind::rule) {
        tops.push_back({element, below});
        return;
      }
      const uint32_t rule = elements[element].value;
      const uint32_t component = rules->component[rule];
      if (component != current) { // a reference within the component returns with the same set below
        Pending &target = pending[component];
        if (rules->ends(element + 1))
          target.wholes.push_back(below);
        else
          target.entries.push_back({element + 1, below});
      }
      if (!rules->nullable[rule]) return;
    }
  };

  // If the rest of a rule may be empty, the rules that called it continue, too.
  std::vector<Id> todo{id};
  const uint32_t walk = ++walks;
  while (!todo.empty()) {
    const Id from = todo.back();
    todo.pop_back();
    if (sets[from].seen == walk) continue;
    sets[from].seen = walk;
    empty_stack = empty_stack || sets[from].empty_stack;
    for (uint32_t at = sets[from].begin; at < sets[from].end; at++) {
      const auto [element, below] = entries[at];
      scan(element, below);
      if (rules->nullable_tail[element]) todo.push_back(below);
    }
  }
  while (!pending.empty()) {
    work.spend(8);
    current = pending.begin()->first;
    Pending from = std::move(pending.begin()->second);
    pending.erase(pending.begin());
    std::sort(from.wholes.begin(), from.wholes.end());
    from.wholes.erase(std::unique(from.wholes.begin(), from.wholes.end()), from.wholes.end());
    Id below = from.wholes.empty() ? nothing : from.wholes.front();
    if (!from.entries.empty() || from.wholes.size() > 1) {
      bool empty_below = false;
      for (const Id whole : from.wholes) {
        work.spend(1 + sets[whole].end - sets[whole].begin);
        from.entries.insert(from.entries.end(), entries.begin() + sets[whole].begin,
                            entries.begin() + sets[whole].end);
        empty_below = empty_below || sets[whole].empty_stack;
      }
      below = collect(from.entries, empty_below, work);
    }
    for (uint32_t at = current == 0 ? 0 : rules->component_ends[current - 1];
         at < rules->component_ends[current]; at++) {
      const uint32_t rule = rules->component_rules[at];
      const uint32_t last = rules->alternative_ends[rule];
      for (uint32_t one = rule == 0 ? 0 : rules->alternative_ends[rule - 1]; one < last; one++)
        scan(rules->alternatives[one], below);
    }
  }
  const Id made = collect(tops, empty_stack, work);
  sets[made].unfolded = made;
  return sets[id].unfolded = made;
}

Stacks::Id Stacks::start(Effort &work) {
  // As if another rule had called the root.
  std::vector<Entry> list;
  for (uint32_t one = rules->root == 0 ? 0 : rules->alternative_ends[rules->root - 1];
       one < rules->alternative_ends[rules->root]; one++) {
    work.spend();
    list.push_back({rules->alternatives[one], ended});
  }
  return unfold(collect(list, rules->nullable[rules->root], work), work);
}

Stacks::Id Stacks::step(Id from, size_t kind, Effort &work) {
  const size_t classes = rules->bounds.size();
  if (classes > few_classes) {
    const auto found = steps.find(key_of(from, static_cast<uint32_t>(kind)));
    if (found != steps.end()) return found->second;
    const Id next = compute_step(from, kind, work);
    grew(48);
    steps.emplace(key_of(from, static_cast<uint32_t>(kind)), next);
    return next;
  }
  if (sets[from].table == unknown) {
    grew(classes * sizeof(Id));
    work.spend(classes / 16);
    const auto table = static_cast<uint32_t>(tables.size());
    tables.resize(tables.size() + classes, unknown);
    sets[from].table = table;
  }
  const size_t place = sets[from].table + kind;
  if (tables[place] == unknown) {
    const Id next = compute_step(from, kind, work);
    tables[place] = next;
  }
  return tables[place];
}

Stacks::Id Stacks::compute_step(Id from, size_t kind, Effort &work) {
  work.spend(16);
  const uint32_t character = rules->bounds[kind];
  std::vector<Entry> list;
  bool empty_stack = false;
  const auto consider = [&](uint32_t at) {
    work.spend();
    const auto [element, below] = entries[at];
    if (matches(element, character)) add_behind(element, below, list, empty_stack, work);
  };
  const uint32_t end = sets[from].end;
  if (end - sets[from].begin <= wide) {
    for (uint32_t at = sets[from].begin; at < end; at++) consider(at);
  } else {
    index_by_class(from, work);
    for (const uint32_t key : {static_cast<uint32_t>(kind), UINT32_MAX}) {
      const auto found = by_class.find(key_of(from, key));
      if (found != by_class.end())
        std::for_each(found->second.begin(), found->second.end(), consider);
    }
  }
  return unfold(collect(list, empty_stack, work), work);
}

Stacks::Id Stacks::step_token(Id from, uint32_t token, Effort &work) {
  if (!sets[from].tokens) return nothing;
  std::vector<Entry> list;
  bool empty_stack = false;
  for (uint32_t at = sets[from].begin; at < sets[from].end; at++) {
    work.spend();
    const auto [element, below] = entries[at];
    const auto &wanted = rules->elements[element];
    const bool fits = wanted.kind == Kind::token
                          ? wanted.value == token
                          : wanted.kind == Kind::other_token && wanted.value != token;
    if (fits) add_behind(element, below, list, empty_stack, work);
  }
  return unfold(collect(list, empty_stack, work), work);
}

Stacks::Id Stacks::copy_to(Stacks &other, Id id, Effort &work) const {
  std::unordered_map<Id, Id> copies{{nothing, nothing}, {ended, ended}};
  std::vector<Id> todo{id};
  std::vector<Entry> list;
  while (!todo.empty()) {
    const Id from = todo.back();
    if (copies.count(from) > 0) {
      todo.pop_back();
      continue;
    }
    list.clear();
    bool ready = true;
    for (uint32_t at = sets[from].begin; at < sets[from].end; at++) {
      work.spend();
      const auto copy = copies.find(entries[at].below);
      if (copy != copies.end()) {
        list.push_back({entries[at].element, copy->second});
        continue;
      }
      todo.push_back(entries[at].below);
      ready = false;
    }
    if (!ready) continue;
    todo.pop_back();
    copies[from] = other.intern(list.data(), list.size(), sets[from].empty_stack, work);
  }
  const Id copy = copies.at(id);
  other.sets[copy].unfolded = copy;
  return copy;
}

} // namespace recua
