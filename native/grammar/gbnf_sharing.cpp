// Rules with very many alternatives, such as an enum's. Alternatives that begin with the same
// characters share these, as in a tree. Otherwise each character of a text would be compared with
// all alternatives.
#include "grammar/gbnf.h"

#include <algorithm>

namespace recua {

namespace {

using Element = GrammarRules::Element;
using Kind = GrammarRules::Kind;

constexpr size_t many = 16; // alternatives; fewer are left alone

struct Alternative {
  size_t begin, end; // in the rule's elements
};

} // namespace

void share_beginnings(std::vector<std::vector<Element>> &definitions, uint32_t rule,
                      const std::function<uint32_t()> &new_part, Effort &work) {
  const std::vector<Element> &given = definitions[rule];
  std::vector<Alternative> all;
  size_t begin = 0;
  for (size_t at = 0; at < given.size(); at++) {
    if (given[at].kind > Kind::alternative) continue;
    all.push_back({begin, at});
    begin = at + 1;
  }
  if (all.size() <= many) return;
  const std::vector<Element> source = std::move(definitions[rule]);
  const auto less = [](const Element &a, const Element &b) {
    return a.kind != b.kind ? a.kind < b.kind : a.value < b.value;
  };
  const auto equal = [](const Element &a, const Element &b) {
    return a.kind == b.kind && a.value == b.value;
  };
  const auto range = [&](const Alternative &one) {
    return std::make_pair(source.begin() + static_cast<std::ptrdiff_t>(one.begin),
                          source.begin() + static_cast<std::ptrdiff_t>(one.end));
  };
  work.spend(source.size() * 16);
  std::sort(all.begin(), all.end(), [&](const Alternative &a, const Alternative &b) {
    const auto [from_a, to_a] = range(a);
    const auto [from_b, to_b] = range(b);
    return std::lexicographical_compare(from_a, to_a, from_b, to_b, less);
  });
  all.erase(std::unique(all.begin(), all.end(),
                        [&](const Alternative &a, const Alternative &b) {
                          const auto [from_a, to_a] = range(a);
                          const auto [from_b, to_b] = range(b);
                          return std::equal(from_a, to_a, from_b, to_b, equal);
                        }),
            all.end());

  struct Branch {
    uint32_t rule;
    size_t from, to; // in `all`
    size_t depth;    // number of shared elements
  };
  std::vector<Branch> todo{{rule, 0, all.size(), 0}};
  while (!todo.empty()) {
    const Branch branch = todo.back();
    todo.pop_back();
    std::vector<Element> made;
    // The element of alternative `i` at `depth`; one of kind `end` past its last.
    const auto element = [&](size_t i, size_t depth) {
      return all[i].begin + depth < all[i].end ? source[all[i].begin + depth]
                                               : Element{Kind::end, 0};
    };
    for (size_t i = branch.from; i < branch.to;) {
      if (i > branch.from) made.push_back({Kind::alternative, 0});
      const Element first = element(i, branch.depth);
      size_t next = i + 1;
      if (first.kind == Kind::character) {
        while (next < branch.to && equal(element(next, branch.depth), first)) next++;
      }
      work.spend(next - i);
      size_t depth = branch.depth;
      if (next - i == 1) {
        depth = all[i].end - all[i].begin;
      } else {
        // Sorted, so whatever the first and the last share, all share.
        while (element(i, depth).kind == Kind::character &&
               equal(element(i, depth), element(next - 1, depth)))
          depth++;
      }
      for (size_t at = branch.depth; at < depth; at++) made.push_back(source[all[i].begin + at]);
      if (next - i > 1) {
        const uint32_t part = new_part();
        made.push_back({Kind::rule, part});
        todo.push_back({part, i, next, depth});
      }
      i = next;
    }
    made.push_back({Kind::end, 0});
    definitions[branch.rule] = std::move(made);
  }
}

} // namespace recua
