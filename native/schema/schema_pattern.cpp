// ECMAScript patterns → GBNF expressions. A class of characters becomes their spellings in a JSON
// string, so that a pattern cannot end a string early. Patterns without ^ or $ match anywhere in
// the text, as JSON schema requires.
#include "schema/schema.h"

#include "unicode.h"

#include <algorithm>

namespace recua::schema {

namespace {

constexpr uint32_t last_character = 0x10FFFF;
constexpr int most_depth = 100;
using Range = std::pair<uint32_t, uint32_t>;
using Ranges = std::vector<Range>;

[[noreturn]] void unsupported(const std::string &what) { throw std::runtime_error(what); }

Ranges tidy(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end());
  Ranges out;
  for (const auto &[from, to] : ranges) {
    if (!out.empty() && from <= out.back().second + 1) out.back().second = std::max(out.back().second, to);
    else out.emplace_back(from, to);
  }
  return out;
}

Ranges inverse(const Ranges &ranges) {
  Ranges out;
  uint32_t next = 0;
  for (const auto &[from, to] : tidy(ranges)) {
    if (from > next) out.emplace_back(next, from - 1);
    next = to + 1;
  }
  if (next <= last_character) out.emplace_back(next, last_character);
  return out;
}

const Ranges digit = {{'0', '9'}};
const Ranges word = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Ranges space = {{9, 13}, {' ', ' '}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const Ranges line_ends = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

std::string in_class(uint32_t character) {
  switch (character) {
    case '\\': return "\\\\";
    case ']': return "\\]";
    case '[': return "\\[";
    case '-': return "\\x2D";
    case '^': return "\\x5E";
    default: return common_unicode_cpt_to_utf8(character);
  }
}

// The characters as written in a JSON string. Those that need an escape get the one that all
// writers use. Control characters that can only be written by number are omitted if the set has
// other characters.
std::string expression_of(const Ranges &given) {
  static const std::map<uint32_t, std::string> escapes = {{'"', "\""}, {'\\', "\\\\"}, {'\b', "b"}, {'\f', "f"}, {'\n', "n"}, {'\r', "r"}, {'\t', "t"}};
  // Surrogates are not characters.
  const Ranges usable = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}, {0x80, 0xD7FF}, {0xE000, last_character}};
  std::string plain, letters, numbers;
  for (const auto &[from, to] : tidy(given)) {
    for (const auto &[low, high] : usable) {
      const uint32_t first = std::max(from, low), last = std::min(to, high);
      if (first > last) continue;
      plain += in_class(first);
      if (last > first) plain += (last > first + 1 ? "-" : "") + in_class(last);
    }
    for (uint32_t character = from; character <= std::min(to, 0x7Fu); character++) {
      const auto known = escapes.find(character);
      if (known != escapes.end()) letters += known->second;
      else if (character < 0x20 || character == 0x7F) {
        static const char hex[] = "0123456789abcdef";
        numbers += std::string(numbers.empty() ? "" : " | ") + "\"\\\\u00" + hex[character >> 4] + hex[character & 15] + "\"";
      }
    }
  }
  const std::string some = plain.empty() ? "" : "[" + plain + "]";
  const std::string marked = letters.empty() ? "" : "\"\\\\\" [" + letters + "]";
  if (!some.empty() && !marked.empty()) return "(" + some + " | " + marked + ")";
  if (!some.empty()) return some;
  if (!marked.empty()) return "(" + marked + ")";
  if (numbers.empty()) throw InvalidPattern("a class of no characters");
  return "(" + numbers + ")";
}

const std::string &any_character() {
  static const std::string any = expression_of({{0, last_character}});
  return any;
}

// The expression for a part of a pattern, and the length of its texts in characters.
struct Piece {
  std::string text;
  Length length;
};

// A repeated piece; max < 0: unlimited.
struct Term {
  Piece one;
  size_t min;
  long long max;

  Length length() const {
    const long long most = one.length.max == 0 || max == 0 ? 0 : one.length.max < 0 || max < 0 ? -1 : one.length.max * max;
    return {std::min(one.length.min * static_cast<long long>(min), longest), most > longest ? -1 : most};
  }
  static constexpr long long longest = 1'000'000'000; // more than any length that is requested
};

struct Reader {
  std::vector<uint32_t> text;
  size_t at;
  Budget &budget;
  const NameRule &name_rule;
  const Length within;
  bool held = true; // whether all texts of the expression have a length in `within`

  bool more() const { return at < text.size(); }
  uint32_t peek() const { return more() ? text[at] : 0; }
  bool take(uint32_t c) {
    if (!more() || text[at] != c) return false;
    at++;
    return true;
  }
  uint32_t next() {
    if (!more()) throw InvalidPattern("it ends too early");
    return text[at++];
  }

  uint32_t hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; i++) {
      const uint32_t c = next();
      if (c >= '0' && c <= '9') value = value * 16 + (c - '0');
      else if ((c | 32) >= 'a' && (c | 32) <= 'f') value = value * 16 + ((c | 32) - 'a' + 10);
      else throw InvalidPattern("an escape with too few hexadecimal digits");
    }
    return value;
  }

  uint32_t unicode_escape() {
    if (!take('{')) {
      const uint32_t high = hex(4);
      if (high < 0xD800 || high > 0xDBFF || at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return high;
      at += 2;
      const uint32_t low = hex(4);
      if (low < 0xDC00 || low > 0xDFFF) throw InvalidPattern("half a surrogate pair");
      return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }
    uint32_t value = 0;
    while (!take('}')) {
      value = value * 16 + hex(1);
      if (value > last_character) throw InvalidPattern("an escape beyond Unicode");
    }
    return value;
  }

  // After a backslash; `in_brackets`: inside a class.
  Ranges escape(bool in_brackets) {
    const uint32_t c = next();
    switch (c) {
      case 'd': return digit;
      case 'D': return inverse(digit);
      case 'w': return word;
      case 'W': return inverse(word);
      case 's': return space;
      case 'S': return inverse(space);
      case 't': return {{'\t', '\t'}};
      case 'n': return {{'\n', '\n'}};
      case 'r': return {{'\r', '\r'}};
      case 'f': return {{'\f', '\f'}};
      case 'v': return {{11, 11}};
      case '0': return {{0, 0}};
      case 'x': { const uint32_t value = hex(2); return {{value, value}}; }
      case 'u': { const uint32_t value = unicode_escape(); return {{value, value}}; }
      case 'c': { const uint32_t value = next() & 31; return {{value, value}}; }
      case 'b':
        if (in_brackets) return {{'\b', '\b'}};
        unsupported("it has \\b, the edge of a word");
      case 'B': unsupported("it has \\B, the inside of a word");
      case 'p': case 'P': unsupported("it has \\p, a property of Unicode");
      case 'k': unsupported("it refers back to a group");
      default:
        if (c >= '1' && c <= '9') unsupported("it refers back to a group");
        if (c < 128 && std::isalpha(static_cast<int>(c))) unsupported(std::string("it has the unknown escape \\") + static_cast<char>(c));
        return {{c, c}};
    }
  }

  std::string brackets() {
    const bool negated = take('^');
    Ranges ranges;
    while (!take(']')) {
      budget.step();
      const auto one = [&]() -> Ranges {
        const uint32_t c = next();
        return c == '\\' ? escape(true) : Ranges{{c, c}};
      };
      Ranges from = one();
      if (peek() == '-' && at + 1 < text.size() && text[at + 1] != ']' && from.size() == 1 && from[0].first == from[0].second) {
        at++;
        const Ranges to = one();
        if (to.size() == 1 && to[0].first == to[0].second) {
          if (to[0].first < from[0].first) throw InvalidPattern("a range whose end is before its beginning");
          from = {{from[0].first, to[0].first}};
        } else {
          from.emplace_back('-', '-');
          from.insert(from.end(), to.begin(), to.end());
        }
      }
      ranges.insert(ranges.end(), from.begin(), from.end());
    }
    return expression_of(negated ? inverse(ranges) : ranges);
  }

  // Reads a quantifier; false if there is none.
  bool times(size_t &min, long long &max) {
    min = 0;
    max = -1;
    if (take('*')) return true;
    if (take('+')) return min = 1, true;
    if (take('?')) return max = 1, true;
    if (peek() != '{') return false;
    const size_t start = at++;
    const auto number = [&]() -> long long {
      if (peek() < '0' || peek() > '9') return -1;
      long long value = 0;
      while (peek() >= '0' && peek() <= '9') {
        value = value * 10 + (next() - '0');
        if (value > 1'000'000) throw InvalidPattern("it repeats something over 1000000 times");
      }
      return value;
    };
    const long long low = number();
    const bool comma = take(',');
    const long long high = comma ? number() : low;
    if (low < 0 || !take('}')) {
      at = start;
      unsupported("it has { without a number of repetitions");
    }
    if (high >= 0 && high < low) throw InvalidPattern("it repeats something at least " + std::to_string(low) + " and at most " + std::to_string(high) + " times");
    min = static_cast<size_t>(low);
    max = high;
    return true;
  }

  // Up to `)` or the end. Anchors may only stand at the edges of the whole pattern's alternatives.
  Piece alternatives(int depth) {
    if (depth > most_depth) unsupported("its groups are nested over " + std::to_string(most_depth) + " deep");
    Piece joined = sequence(depth == 0, depth);
    while (take('|')) {
      const Piece other = sequence(depth == 0, depth);
      joined.text += " | " + other.text;
      joined.length.min = std::min(joined.length.min, other.length.min);
      joined.length.max = joined.length.max < 0 || other.length.max < 0 ? -1 : std::max(joined.length.max, other.length.max);
    }
    return joined;
  }

  Piece sequence(bool outer, int depth) {
    std::vector<Term> terms;
    const Term anything{{any_character(), {1, 1}}, 0, -1};
    if (outer && !take('^')) terms.push_back(anything);
    bool ends = false;
    while (more() && peek() != '|' && peek() != ')') {
      budget.step();
      if (peek() == '$' && outer && (at + 1 == text.size() || text[at + 1] == '|')) {
        at++;
        ends = true;
        break;
      }
      terms.push_back(term(depth));
      budget.write(terms.back().one.text.size() + 1);
    }
    if (outer && !ends) terms.push_back(anything);
    if (outer) keep(terms);
    Piece made;
    for (const Term &term : terms) {
      std::string item = term.one.text;
      if (term.max == 0) {
        item = "\"\"";
      } else if (term.min != 1 || term.max != 1) {
        item = repeat(item, term.min, term.max, name_rule);
        budget.write(item.size());
      }
      made.text += (made.text.empty() ? "" : " ") + item;
      add(made.length, term.length());
    }
    if (made.text.empty()) made.text = "\"\"";
    return made;
  }

  static void add(Length &sum, const Length &other) {
    sum.min = std::min(sum.min + other.min, Term::longest);
    sum.max = sum.max < 0 || other.max < 0 ? -1 : sum.max + other.max;
  }

  // Limits the terms of a whole text to the requested length, by limiting the repetitions of the
  // term whose length varies, if there is just one.
  void keep(std::vector<Term> &terms) {
    Length all;
    Term *open = nullptr;
    size_t varying = 0;
    for (Term &term : terms) {
      const Length length = term.length();
      add(all, length);
      if (length.min == length.max) continue;
      varying++;
      open = &term;
    }
    if (all.min >= within.min && (within.max < 0 || (all.max >= 0 && all.max <= within.max))) return;
    if (varying == 1 && open->one.length.min == open->one.length.max && bound(*open, all.min - open->length().min)) return;
    held = false;
  }

  // `others`: characters of the other terms. False if no number of repetitions gives such a length.
  bool bound(Term &term, long long others) const {
    const long long each = term.one.length.min;
    const long long least = std::max(static_cast<long long>(term.min), (within.min - others + each - 1) / each);
    long long most = term.max;
    if (within.max >= 0) most = std::min(within.max < others ? -1 : (within.max - others) / each, most < 0 ? Term::longest : most);
    if (least > most && (most >= 0 || within.max >= 0)) return false;
    term.min = static_cast<size_t>(least);
    term.max = most;
    return true;
  }

  Term term(int depth) {
    const uint32_t c = next();
    Term made{{"", {1, 1}}, 1, 1};
    std::string &item = made.one.text;
    switch (c) {
      case '.': item = expression_of(inverse(line_ends)); break;
      case '[': item = brackets(); break;
      case '\\': item = expression_of(escape(false)); break;
      case '(':
        if (take('?')) {
          if (take('<')) {
            if (peek() == '=' || peek() == '!') unsupported("it looks behind");
            while (next() != '>') {}
          } else if (!take(':')) {
            unsupported("it looks ahead, or sets flags");
          }
        }
        made.one = alternatives(depth + 1);
        item = "(" + item + ")";
        if (!take(')')) throw InvalidPattern("a group is not closed");
        break;
      case '^': case '$': unsupported("it has ^ or $ inside");
      case '*': case '+': case '?': throw InvalidPattern("there is nothing to repeat");
      case '{': unsupported("it has { without a number of repetitions");
      default: item = expression_of({{c, c}});
    }
    if (!times(made.min, made.max)) return {made.one, 1, 1};
    take('?'); // lazy: matches the same texts
    if (peek() == '*' || peek() == '+' || peek() == '?') throw InvalidPattern("there is nothing to repeat");
    return made;
  }
};

std::vector<uint32_t> characters_of(const std::string &text) {
  std::vector<uint32_t> out;
  for (size_t at = 0; at < text.size();) {
    const auto read = common_parse_utf8_codepoint(text, at);
    if (read.status != utf8_parse_result::SUCCESS) throw InvalidPattern("it is not valid UTF-8");
    out.push_back(read.codepoint);
    at += read.bytes_consumed;
  }
  return out;
}

} // namespace

Followed pattern_expression(const std::string &pattern, const Length &within, Budget &budget, const NameRule &name_rule) {
  budget.step(pattern.size());
  Reader reader{characters_of(pattern), 0, budget, name_rule, within};
  const Piece made = reader.alternatives(0);
  if (reader.more()) throw InvalidPattern("a group is closed that was not opened");
  return {made.text, reader.held};
}

const char *format_pattern(const std::string &format) {
  static const std::map<std::string, const char *> patterns = {
      {"email", "^[A-Za-z0-9_+-]+(\\.[A-Za-z0-9_+-]+)*@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.)+[A-Za-z]{2,63}$"},
      {"hostname", "^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$"},
      {"ipv4", "^((25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)\\.){3}(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)$"},
      {"ipv6", "^([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}$"},
      {"duration", "^P(\\d+W|\\d+Y(\\d+M(\\d+D)?)?|\\d+M(\\d+D)?|\\d+D|(\\d+Y(\\d+M(\\d+D)?)?|\\d+M(\\d+D)?|\\d+D)?T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S))$"},
      {"uri", "^[A-Za-z][A-Za-z0-9+.-]*:([A-Za-z0-9._~:/?@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+(#([A-Za-z0-9._~:/?@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)?$"},
  };
  const auto found = patterns.find(format);
  return found == patterns.end() ? nullptr : found->second;
}

} // namespace recua::schema
