// The parser. It keeps open parentheses on its own stack. The language is that of llama.cpp v0.5.0
// (src/llama-grammar.cpp), quirks included: of two rules with one name the last counts, and `[]` is
// the empty text. Where llama.cpp gives up or approximates, it goes further: any number of
// repetitions is exact.
#include "grammar/gbnf_scanner.h"

#include <algorithm>
#include <unordered_map>

namespace recua {

namespace {

using Element = GrammarRules::Element;
using Kind = GrammarRules::Kind;

constexpr size_t most_elements = 4u << 20;
constexpr size_t most_rules = 1u << 20;
// The highest minimum. A higher maximum counts as unlimited: no text is that long.
constexpr uint64_t most_repetitions = 1u << 30;
constexpr size_t longest_token_name = 512;
constexpr uint64_t token_steps = 1024; // to find a token by its name

class Parser : private GbnfScanner {
public:
  Parser(const std::string &text, const TokenNamed &token_named, int32_t vocab_size,
         const Spelled &spelled, Effort &work)
      : GbnfScanner(text, work),
        token_named(token_named),
        vocab_size(vocab_size),
        spelled(spelled),
        made(std::make_shared<GrammarRules>()) {}

  std::shared_ptr<const GrammarRules> parse() {
    const size_t nul = text.find('\0');
    if (nul != std::string::npos) {
      at = nul;
      fail("text without NUL bytes (write \\x00 for one)");
    }
    skip_space(true);
    while (!done()) rule();
    flatten();
    analyze(
        *made,
        [this](uint32_t rule) {
          return '"' + *names[rule] + "\" (" + place(first_place(rule)) + ")";
        },
        work);
    return made;
  }

private:
  // A rule, or a pair of parentheses, whose alternatives are being read.
  struct Open {
    uint32_t rule;
    std::vector<Element> elements;
    size_t last; // start of the item that a repetition would repeat
    size_t from; // in the text
  };

  bool nested() const { return open.size() > 1; }

  uint32_t new_rule(std::shared_ptr<const std::string> name) {
    if (names.size() >= most_rules) {
      fail_at(at, "expected a grammar of at most " + std::to_string(most_rules) +
                      " rules, parentheses and repetitions, got more");
    }
    work.spend(16);
    names.push_back(std::move(name));
    definitions.emplace_back();
    defined.push_back(false);
    uses.push_back(at);
    return static_cast<uint32_t>(names.size() - 1);
  }

  uint32_t rule_named(const std::string &name) {
    const auto [found, added] = numbers.try_emplace(name, 0);
    if (added) {
      work.spend(name.size());
      found->second = new_rule(std::make_shared<const std::string>(name));
    }
    return found->second;
  }

  // Where a rule's name occurs first.
  size_t first_place(uint32_t rule) const {
    return uses[rule] - std::min(uses[rule], names[rule]->size());
  }

  // A rule without a name in the text.
  uint32_t new_part() { return new_rule(names[open.front().rule]); }

  void define(uint32_t rule, std::vector<Element> elements) {
    written += elements.size();
    written -= definitions[rule].size();
    check_size(0);
    elements.shrink_to_fit();
    definitions[rule] = std::move(elements);
    defined[rule] = true;
  }

  void check_size(size_t more) const {
    if (written + more > most_elements) {
      fail_at(at, "expected a grammar of at most " + std::to_string(most_elements) +
                      " characters, references and the like, repetitions included, got more");
    }
  }

  void push(Kind kind, uint32_t value) {
    auto &elements = open.back().elements;
    if ((elements.size() & 1023) == 0) check_size(elements.size());
    elements.push_back({kind, value});
  }

  void rule() {
    const size_t from = at;
    const uint32_t number = rule_named(word("the name of a rule (letters, digits and -)"));
    skip_space(false);
    if (text.compare(at, 3, "::=") != 0) fail("\"::=\"");
    advance(3);
    skip_space(true);
    open.push_back({number, {}, 0, from});
    while (!open.empty()) part();
    if (!done() && peek() != '\r' && peek() != '\n')
      fail("an element of a rule, \"|\" or the end of the line");
    skip_space(true);
  }

  void part() {
    Open &top = open.back();
    const char c = peek();
    if (done()) return close();
    if (is_word(c)) {
      const uint32_t number = rule_named(word("a name"));
      begin_item();
      push(Kind::rule, number);
      return skip_space(nested());
    }
    switch (c) {
      case '"': return literal();
      case '[': return set();
      case '<':
      case '!': return token();
      case '.':
        advance();
        begin_item();
        add_set({}, true);
        return skip_space(nested());
      case '(': {
        const size_t from = at;
        advance();
        skip_space(true);
        const uint32_t number = new_part();
        open.push_back({number, {}, 0, from});
        return;
      }
      case '|':
        push(Kind::alternative, 0);
        top.last = top.elements.size();
        advance();
        return skip_space(true);
      case '*': return repeat_one(0, unlimited);
      case '+': return repeat_one(1, unlimited);
      case '?': return repeat_one(0, 1);
      case '{': return repeat_counted();
      default: return close();
    }
  }

  void begin_item() { open.back().last = open.back().elements.size(); }

  // Ends the alternatives.
  void close() {
    const bool inner = nested();
    if (inner && peek() != ')') {
      fail("\")\" for the \"(\" of " + place(open.back().from));
    }
    push(Kind::end, 0);
    Open closed = std::move(open.back());
    open.pop_back();
    define(closed.rule, std::move(closed.elements));
    if (!inner) return;
    advance();
    begin_item();
    push(Kind::rule, closed.rule);
    skip_space(nested());
  }

  void literal() {
    const size_t from = at;
    advance();
    begin_item();
    while (peek() != '"') {
      if (done()) fail("\" at the end of the text that began at " + place(from));
      push(Kind::character, character());
    }
    advance();
    skip_space(nested());
  }

  void add_set(std::vector<GrammarRules::Range> ranges, bool negated) {
    std::sort(ranges.begin(), ranges.end(),
              [](const auto &a, const auto &b) { return a.first < b.first; });
    const auto begin = static_cast<uint32_t>(made->ranges.size());
    for (const auto &range : ranges) {
      auto *last = made->ranges.size() > begin ? &made->ranges.back() : nullptr;
      if (last != nullptr && (last->last == UINT32_MAX || range.first <= last->last + 1))
        last->last = std::max(last->last, range.last);
      else
        made->ranges.push_back(range);
    }
    made->sets.push_back({begin, static_cast<uint32_t>(made->ranges.size()), negated});
    if (made->ranges.size() > most_elements) check_size(most_elements + 1);
    push(Kind::set, static_cast<uint32_t>(made->sets.size() - 1));
  }

  void set() {
    const size_t from = at;
    advance();
    const bool negated = peek() == '^';
    if (negated) advance();
    begin_item();
    const auto unfinished = [&] {
      fail("\"]\" at the end of the set that began at " + place(from));
    };
    std::vector<GrammarRules::Range> ranges;
    while (peek() != ']') {
      if (done()) unfinished();
      const size_t begin = at;
      const uint32_t first = character();
      uint32_t last = first;
      if (peek() == '-' && peek(1) != ']') {
        advance();
        if (done()) unfinished();
        last = character();
      }
      if (last < first)
        fail_at(begin, "expected a range up to a later character, got " + text.substr(begin, at - begin));
      ranges.push_back({first, last});
    }
    advance();
    if (ranges.size() == 1 && !negated && ranges[0].first == ranges[0].last)
      push(Kind::character, ranges[0].first);
    else if (!ranges.empty())
      add_set(std::move(ranges), negated);
    skip_space(nested());
  }

  void token() {
    const bool other = peek() == '!';
    if (other) advance();
    const size_t from = at;
    if (peek() != '<') fail("\"<\" and a token");
    int64_t id = -1;
    if (peek(1) == '[') {
      advance(2);
      id = static_cast<int64_t>(number("the number of a token"));
      if (peek() != ']' || peek(1) != '>') fail("\"]>\" after the number of a token");
      advance(2);
      if (vocab_size > 0 && id >= vocab_size) {
        fail_at(from, "expected a token from 0 to " + std::to_string(vocab_size - 1) + ", got " +
                          std::to_string(id));
      }
    } else {
      const size_t end = text.find('>', at);
      if (end == std::string::npos || end - at > longest_token_name)
        fail("the name of a token, as <name>");
      const std::string name = text.substr(at, end + 1 - at);
      const auto [known, added] = named_tokens.try_emplace(name, -1);
      if (added) {
        work.spend(token_steps);
        known->second = token_named ? token_named(name) : -1;
      }
      id = known->second;
      if (id < 0)
        fail_at(at,
                "expected the name of one token of the model's vocabulary, got \"" + name + '"');
      advance(name.size());
    }
    begin_item();
    made->names_tokens = true;
    push(other ? Kind::other_token : Kind::token, static_cast<uint32_t>(id));
    skip_space(nested());
  }

  void repeat_one(uint64_t least, uint64_t most) {
    check_item();
    advance();
    skip_space(nested());
    repeat(least, most);
  }

  void check_item() const {
    if (open.back().last == open.back().elements.size()) fail("something to repeat before it");
  }

  void repeat_counted() {
    check_item();
    const size_t from = at;
    advance();
    skip_space(nested());
    const uint64_t least = number("a number of repetitions");
    skip_space(nested());
    uint64_t most = least;
    if (peek() == ',') {
      advance();
      skip_space(nested());
      most = unlimited;
      if (is_digit(peek())) {
        most = number("a number of repetitions");
        skip_space(nested());
      }
    }
    if (peek() != '}') fail(most == least ? "\",\" or \"}\"" : "\"}\"");
    if (most < least) {
      fail_at(from, "expected a largest number of repetitions of at least the smallest, got {" +
                        std::to_string(least) + "," + std::to_string(most) + "}");
    }
    if (least > most_repetitions) {
      fail_at(from,
              "expected at most " + std::to_string(most_repetitions) + " repetitions, got more");
    }
    if (most > most_repetitions) most = unlimited;
    advance();
    skip_space(nested());
    repeat(least, most);
  }

  // Repeats the last item.
  void repeat(uint64_t least, uint64_t most) {
    auto &elements = open.back().elements;
    const auto last = elements.begin() + static_cast<std::ptrdiff_t>(open.back().last);
    std::vector<Element> item(last, elements.end());
    elements.erase(last, elements.end());
    check_size(elements.size() + item.size());
    const NewParts parts{
        [this] { return new_part(); },
        [this](uint32_t part, std::vector<Element> of) { define(part, std::move(of)); }};
    const auto repeated = repeat_item(std::move(item), least, most, parts, work);
    check_size(elements.size() + repeated.size());
    elements.insert(elements.end(), repeated.begin(), repeated.end());
  }

  void flatten() {
    const auto root = numbers.find("root");
    if (root == numbers.end())
      throw GrammarError("expected a rule named \"root\", got a grammar without one");
    made->root = root->second;
    for (size_t rule = 0; rule < definitions.size(); rule++) {
      if (!defined[rule])
        fail_at(first_place(static_cast<uint32_t>(rule)),
                "expected a rule that the grammar defines, got \"" + *names[rule] + '"');
    }
    keep_spelled(definitions, *made, spelled, work);
    for (uint32_t rule = 0, count = static_cast<uint32_t>(definitions.size()); rule < count;
         rule++) {
      share_beginnings(
          definitions, rule, [&] { return new_rule(names[rule]); }, work);
    }
    for (auto &definition : definitions) {
      made->starts.push_back(static_cast<uint32_t>(made->elements.size()));
      made->elements.insert(made->elements.end(), definition.begin(), definition.end());
      definition = {};
    }
    work.spend(made->elements.size());
  }

  const TokenNamed &token_named;
  const int32_t vocab_size;
  const Spelled &spelled;
  std::shared_ptr<GrammarRules> made;
  size_t written = 0; // elements of complete rules
  std::vector<Open> open;
  std::unordered_map<std::string, uint32_t> numbers; // of rules
  std::unordered_map<std::string, int32_t> named_tokens;
  // By rule. A rule without a name shares that of its enclosing rule: names may be long.
  std::vector<std::shared_ptr<const std::string>> names;
  std::vector<std::vector<Element>> definitions;
  std::vector<bool> defined;
  std::vector<size_t> uses; // offset after the first occurrence of its name
};

} // namespace

size_t GrammarRules::bytes() const {
  return elements.size() * (sizeof(Element) + 1) + starts.size() * 5 * sizeof(uint32_t) +
         sets.size() * sizeof(Set) + ranges.size() * sizeof(Range) +
         bounds.size() * sizeof(uint32_t);
}

std::shared_ptr<const GrammarRules> parse_gbnf(const std::string &text,
                                               const TokenNamed &token_named, int32_t vocab_size,
                                               const Spelled &spelled, Effort &work) {
  return Parser(text, token_named, vocab_size, spelled, work).parse();
}

} // namespace recua
