// Derives properties of a grammar's rules: which may be empty, which can begin with which, and
// which characters they distinguish. All of it in time linear in the rules (the characters are
// sorted), without recursion.
#include "grammar/gbnf.h"

#include <algorithm>

namespace recua {

namespace {

using Kind = GrammarRules::Kind;

class Analysis {
public:
  Analysis(GrammarRules &rules, const std::function<std::string(uint32_t)> &name_of, Effort &work)
      : rules(rules), name_of(name_of), work(work) {}

  void run() {
    find_alternatives();
    find_nullable();
    order_rules();
    classify();
  }

private:
  void find_alternatives() {
    bool begins = true;
    for (uint32_t at = 0; at < rules.elements.size(); at++) {
      const Kind kind = rules.elements[at].kind;
      if (begins && kind > Kind::alternative) rules.alternatives.push_back(at);
      begins = kind <= Kind::alternative;
      if (kind == Kind::end)
        rules.alternative_ends.push_back(static_cast<uint32_t>(rules.alternatives.size()));
    }
    work.spend(rules.elements.size());
  }

  // A rule is nullable if one of its alternatives consists of nullable rules only. Each alternative
  // counts the rules that it still lacks.
  void find_nullable() {
    const size_t count = rules.starts.size();
    rules.nullable.assign(count, false);
    std::vector<uint32_t> lacking; // by alternative
    std::vector<uint32_t> owner;
    std::vector<uint32_t> found;
    std::vector<uint32_t> first_use(count + 1, 0);
    for (const auto &element : rules.elements) {
      if (element.kind == Kind::rule) first_use[element.value + 1]++;
    }
    for (size_t rule = 0; rule < count; rule++) first_use[rule + 1] += first_use[rule];
    std::vector<uint32_t> uses(first_use.back()); // alternatives that refer to a rule
    std::vector<uint32_t> next_use(first_use.begin(), first_use.end() - 1);
    work.spend(rules.elements.size() * 2 + count);
    uint32_t rule = 0, lacks = 0;
    for (const auto &element : rules.elements) {
      if (element.kind == Kind::rule)
        uses[next_use[element.value]++] = static_cast<uint32_t>(lacking.size());
      if (element.kind > Kind::alternative) {
        lacks++;
        continue;
      }
      lacking.push_back(lacks);
      owner.push_back(rule);
      if (lacks == 0) found.push_back(rule);
      lacks = 0;
      if (element.kind == Kind::end) rule++;
    }
    while (!found.empty()) {
      const uint32_t empty = found.back();
      found.pop_back();
      if (rules.nullable[empty]) continue;
      rules.nullable[empty] = true;
      work.spend(1 + first_use[empty + 1] - first_use[empty]);
      for (uint32_t use = first_use[empty]; use < first_use[empty + 1]; use++) {
        if (--lacking[uses[use]] == 0) found.push_back(owner[uses[use]]);
      }
    }
    rules.nullable_tail.assign(rules.elements.size(), false);
    for (size_t at = rules.elements.size(); at-- > 0;) {
      const auto &element = rules.elements[at];
      const bool nullable = element.kind == Kind::rule && rules.nullable[element.value];
      rules.nullable_tail[at] =
          element.kind <= Kind::alternative || (nullable && rules.nullable_tail[at + 1]);
    }
  }

  // Walks the rules that a rule may begin with: the references at the start of its alternatives,
  // and the references behind them if all before may be empty.
  struct Beginnings {
    const GrammarRules &rules;
    uint32_t at;
    bool first = true; // in its alternative
    bool finished = false;

    Beginnings(const GrammarRules &rules, uint32_t rule) : rules(rules), at(rules.starts[rule]) {
      settle();
    }
    // The rule found.
    uint32_t rule() const { return rules.elements[at].value; }
    bool last() const { return rules.ends(at + 1); }
    void next() {
      const bool goes_on = rules.nullable[rule()];
      at++;
      first = false;
      if (!goes_on) skip_alternative();
      settle();
    }

  private:
    void skip_alternative() {
      while (!rules.ends(at)) at++;
    }
    // Moves to the next reference from here on.
    void settle() {
      while (rules.elements[at].kind != Kind::rule) {
        skip_alternative();
        if (rules.elements[at].kind == Kind::end) {
          finished = true;
          return;
        }
        at++;
        first = true;
      }
    }
  };

  // Tarjan's algorithm. A rule that may begin with itself is left recursion, unless it only returns
  // to its own end, as `("a"?)*` does.
  void order_rules() {
    const size_t count = rules.starts.size();
    constexpr uint32_t none = UINT32_MAX;
    rules.component.assign(count, none);
    std::vector<uint32_t> index(count, none), low(count, 0), stack, members, ends;
    struct Visit {
      uint32_t rule;
      Beginnings beginnings;
    };
    std::vector<Visit> path;
    uint32_t next_index = 0;
    const auto enter = [&](uint32_t rule) {
      index[rule] = low[rule] = next_index++;
      stack.push_back(rule);
      path.push_back({rule, Beginnings(rules, rule)});
    };
    work.spend(rules.elements.size() + count * 8);
    for (uint32_t start = 0; start < count; start++) {
      if (index[start] != none) continue;
      enter(start);
      while (!path.empty()) {
        Visit &visit = path.back();
        if (!visit.beginnings.finished) {
          const uint32_t to = visit.beginnings.rule();
          if (index[to] == none) {
            enter(to);
            continue;
          }
          if (rules.component[to] == none) low[visit.rule] = std::min(low[visit.rule], low[to]);
          // Seen again after its visit, so that the results there count here.
          visit.beginnings.next();
          continue;
        }
        const uint32_t rule = visit.rule;
        path.pop_back();
        if (low[rule] != index[rule]) continue;
        for (;;) {
          const uint32_t member = stack.back();
          stack.pop_back();
          members.push_back(member);
          rules.component[member] = static_cast<uint32_t>(ends.size());
          if (member == rule) break;
        }
        ends.push_back(static_cast<uint32_t>(members.size()));
      }
    }
    check_loops();
    // Components were found from last to first.
    const auto components = static_cast<uint32_t>(ends.size());
    for (uint32_t component = components; component-- > 0;) {
      for (uint32_t at = component == 0 ? 0 : ends[component - 1]; at < ends[component]; at++)
        rules.component_rules.push_back(members[at]);
      rules.component_ends.push_back(static_cast<uint32_t>(rules.component_rules.size()));
    }
    for (auto &component : rules.component) component = components - 1 - component;
  }

  void check_loops() const {
    for (uint32_t rule = 0; rule < rules.starts.size(); rule++) {
      for (Beginnings to(rules, rule); !to.finished; to.next()) {
        if (rules.component[to.rule()] != rules.component[rule]) continue;
        if (to.last() && !to.first) continue;
        throw GrammarError(
            "expected rules that read something before they refer to themselves, but " +
            name_of(rule) +
            " can begin with itself (left recursion); write the repetition with * or +, or as "
            "right recursion");
      }
    }
  }

  void classify() {
    auto &bounds = rules.bounds;
    bounds = {0};
    const auto add = [&](uint32_t first, uint32_t last) {
      bounds.push_back(first);
      if (last < UINT32_MAX) bounds.push_back(last + 1);
    };
    for (const auto &element : rules.elements) {
      if (element.kind == Kind::character) add(element.value, element.value);
    }
    for (const auto &range : rules.ranges) add(range.first, range.last);
    work.spend(bounds.size() * 4);
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    bounds.shrink_to_fit();
  }

  GrammarRules &rules;
  const std::function<std::string(uint32_t)> &name_of;
  Effort &work;
};

} // namespace

bool is_endless(const GrammarRules &rules) {
  enum : uint8_t { unseen, within, done };
  std::vector<uint8_t> state(rules.starts.size(), unseen);
  std::vector<std::pair<uint32_t, uint32_t>> path{{rules.root, rules.starts[rules.root]}};
  state[rules.root] = within;
  while (!path.empty()) {
    auto &[rule, at] = path.back();
    const auto &element = rules.elements[at];
    if (element.kind == Kind::end) {
      state[rule] = done;
      path.pop_back();
      continue;
    }
    at++;
    if (element.kind != Kind::rule || state[element.value] == done) continue;
    if (state[element.value] == within) return true;
    state[element.value] = within;
    path.emplace_back(element.value, rules.starts[element.value]);
  }
  return false;
}

void analyze(GrammarRules &rules, const std::function<std::string(uint32_t)> &name_of,
             Effort &work) {
  Analysis(rules, name_of, work).run();
}

} // namespace recua
