// Bounds of numbers → expressions that match exactly, digit by digit. On a side without a bound,
// numbers have up to 16 digits, as in llama.cpp's converter. Fractions have up to 16 digits, and a
// bounded number has no exponent.
#include "schema/schema.h"

#include <algorithm>

namespace recua::schema {

namespace {

constexpr size_t most_digits = 40;
const std::string largest_int64 = "9223372036854775807";

std::string digits(size_t min, size_t max, const char *kind = "[0-9]") {
  if (max == 0) return "";
  if (min == 1 && max == 1) return kind;
  if (min == max) return std::string(kind) + "{" + std::to_string(min) + "}";
  return std::string(kind) + "{" + std::to_string(min) + "," + std::to_string(max) + "}";
}

std::string span(char from, char to) {
  if (from == to) return std::string("\"") + from + "\"";
  return std::string("[") + from + "-" + to + "]";
}

bool all(const std::string &text, char c) { return text.find_first_not_of(c) == std::string::npos; }

struct Alternatives {
  std::string text;
  void add(const std::string &one) {
    if (!text.empty()) text += " | ";
    text += one;
  }
  std::string grouped() const { return "(" + text + ")"; }
};

// Numbers from `from` to `to`, which have equally many digits.
std::string same_length(const std::string &from, const std::string &to) {
  if (from == to) return "\"" + from + "\"";
  if (all(from, '0') && all(to, '9')) return digits(from.size(), from.size());
  const std::string low_rest = from.substr(1), high_rest = to.substr(1);
  char low = from[0], high = to[0];
  if (low == high) return span(low, low) + " (" + same_length(low_rest, high_rest) + ")";
  Alternatives ways;
  if (!all(low_rest, '0')) {
    ways.add(span(low, low) + " (" + same_length(low_rest, std::string(low_rest.size(), '9')) + ")");
    low++;
  }
  std::string last;
  if (!all(high_rest, '9')) {
    last = span(high, high) + " (" + same_length(std::string(high_rest.size(), '0'), high_rest) + ")";
    high--;
  }
  if (low <= high) ways.add(span(low, high) + (low_rest.empty() ? "" : " " + digits(low_rest.size(), low_rest.size())));
  if (!last.empty()) ways.add(last);
  return ways.grouped();
}

bool less(const std::string &a, const std::string &b) { return a.size() != b.size() ? a.size() < b.size() : a < b; }

std::string add_one(std::string number) {
  size_t at = number.size();
  while (at > 0 && number[at - 1] == '9') number[--at] = '0';
  if (at == 0) return "1" + number;
  number[at - 1]++;
  return number;
}

std::string subtract_one(std::string number) { // at least 1
  size_t at = number.size();
  while (number[at - 1] == '0') number[--at] = '9';
  number[at - 1]--;
  const size_t first = number.find_first_not_of('0');
  return first == std::string::npos ? "0" : number.substr(first);
}

// Whole numbers >= 0 from `low` to `high`; nothing if there is none.
std::optional<std::string> whole_range(const std::string &low, const std::string &high) {
  if (less(high, low)) return std::nullopt;
  Alternatives ways;
  for (size_t size = low.size(); size <= high.size(); size++) {
    ways.add(same_length(size == low.size() ? low : "1" + std::string(size - 1, '0'), size == high.size() ? high : std::string(size, '9')));
  }
  return ways.grouped();
}

// The upper limit for numbers with this lower bound and no upper one.
std::string open_end(const std::string &low) {
  if (low.size() <= 16) return std::string(16, '9');
  return less(largest_int64, low) ? std::string(low.size(), '9') : largest_int64;
}

// --- Fractions: the digits after the point. `left`: how many digits there may be.

std::string at_least(const std::string &bound, bool above, size_t left);
std::string at_most(const std::string &bound, bool below, size_t left);

std::string followed(char digit, const std::string &rest) { return span(digit, digit) + (rest.empty() ? "" : " " + rest); }

std::string positive(size_t left) { return digits(0, left - 1, "\"0\"") + " [1-9] " + digits(0, left - 1); }

// At least one digit.
std::string at_least(const std::string &bound, bool above, size_t left) {
  if (bound.empty()) return above ? "(" + positive(left) + ")" : digits(1, left);
  Alternatives ways;
  const std::string rest = bound.substr(1);
  if (rest.empty() && !above) ways.add(followed(bound[0], digits(0, left - 1)));
  else if (left > 1) ways.add(followed(bound[0], at_least(rest, above, left - 1)));
  if (bound[0] < '9') ways.add(span(static_cast<char>(bound[0] + 1), '9') + " " + digits(0, left - 1));
  return ways.grouped();
}

// At least one digit; '' if there is no such fraction.
std::string at_most(const std::string &bound, bool below, size_t left) {
  if (bound.empty()) return below ? "" : digits(1, left, "\"0\"");
  Alternatives ways;
  const std::string rest = bound.substr(1);
  if (bound[0] > '0') ways.add(span('0', static_cast<char>(bound[0] - 1)) + " " + digits(0, left - 1));
  if (!rest.empty()) {
    const std::string more = at_most(rest, below, left - 1);
    ways.add(followed(bound[0], more.empty() ? "" : more + "?"));
  } else if (!below) {
    ways.add(followed(bound[0], digits(0, left - 1, "\"0\"")));
  }
  return ways.grouped();
}

// At least one digit, between the two; '' if there is no such fraction.
std::string between(const std::string &low, bool above, const std::string &high, bool below, size_t left) {
  if (low.empty() && !above) return at_most(high, below, left);
  const char from = low.empty() ? '0' : low[0], to = high.empty() ? '0' : high[0];
  const std::string low_rest = low.empty() ? "" : low.substr(1), high_rest = high.empty() ? "" : high.substr(1);
  Alternatives ways;
  if (from == to) {
    if (left <= 1 || (high_rest.empty() && low_rest.empty())) {
      // Only this number is left, followed by any number of zeros.
      if (!above && !below && low_rest == high_rest) ways.add(followed(from, digits(0, left - 1, "\"0\"")));
      return ways.text.empty() ? "" : ways.grouped();
    }
    const std::string more = between(low_rest, above, high_rest, below, left - 1);
    const bool ends = low_rest.empty() && !above;
    if (more.empty() && !ends) return "";
    ways.add(followed(from, more.empty() ? "" : ends ? more + "?" : more));
    return ways.grouped();
  }
  if (low_rest.empty() && !above) ways.add(followed(from, digits(0, left - 1)));
  else if (left > 1) ways.add(followed(from, at_least(low_rest, above, left - 1)));
  if (from + 1 < to) ways.add(span(static_cast<char>(from + 1), static_cast<char>(to - 1)) + " " + digits(0, left - 1));
  const std::string more = high_rest.empty() ? (below ? "" : digits(0, left - 1, "\"0\"")) : at_most(high_rest, below, left - 1) + "?";
  if (!high_rest.empty() || !below) ways.add(followed(to, more));
  return ways.text.empty() ? "" : ways.grouped();
}

constexpr size_t fraction_digits = 16;

size_t room(const std::string &one, const std::string &other = "") { return std::max({fraction_digits, one.size() + 1, other.size() + 1}); }

// `whole` with matching fractions; '' if there is none.
std::string with_fraction(const std::string &whole, const std::string &fraction, bool alone) {
  if (fraction.empty()) return alone ? whole : "";
  return whole + " (\".\" " + fraction + ")" + (alone ? "?" : "");
}

// Numbers >= 0.
std::optional<std::string> decimal_range(const Decimal &low, bool above, const std::optional<Decimal> &high, bool below) {
  Alternatives ways;
  const auto add = [&](const std::string &way) { if (!way.empty()) ways.add(way); };
  const auto quoted = [](const std::string &number) { return "\"" + number + "\""; };
  if (high && high->whole == low.whole) {
    const int order = compare(low, *high);
    if (order > 0 || (order == 0 && (above || below))) return std::nullopt;
    const bool alone = low.fraction.empty() && !above && !(high->fraction.empty() && below);
    add(with_fraction(quoted(low.whole), between(low.fraction, above, high->fraction, below, room(low.fraction, high->fraction)), alone));
  } else {
    if (high && less(high->whole, low.whole)) return std::nullopt;
    const bool alone = low.fraction.empty() && !above;
    add(with_fraction(quoted(low.whole), at_least(low.fraction, above, room(low.fraction)), alone));
    const std::string end = high ? subtract_one(high->whole) : open_end(low.whole);
    if (const auto middle = whole_range(add_one(low.whole), end)) add(with_fraction(*middle, digits(1, fraction_digits), true));
    if (high) add(with_fraction(quoted(high->whole), at_most(high->fraction, below, room(high->fraction)), !(high->fraction.empty() && below)));
  }
  if (ways.text.empty()) return std::nullopt;
  return ways.grouped();
}

Decimal positive_of(Decimal number) {
  number.negative = false;
  return number;
}

} // namespace

int compare(const Decimal &a, const Decimal &b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  int order = 0;
  if (a.whole != b.whole) order = less(a.whole, b.whole) ? -1 : 1;
  else if (a.fraction != b.fraction) order = a.fraction < b.fraction ? -1 : 1;
  return a.negative ? -order : order;
}

std::optional<Decimal> read_decimal(const common_json &number) {
  std::string text = number.dump();
  Decimal read;
  if (!text.empty() && text[0] == '-') {
    read.negative = true;
    text.erase(0, 1);
  }
  long exponent = 0;
  const size_t e = text.find_first_of("eE");
  if (e != std::string::npos) {
    exponent = std::stol(text.substr(e + 1));
    text.resize(e);
  }
  const size_t point = text.find('.');
  std::string all_digits = text;
  long before = static_cast<long>(text.size());
  if (point != std::string::npos) {
    before = static_cast<long>(point);
    all_digits.erase(point, 1);
  }
  before += exponent;
  if (before > static_cast<long>(most_digits) || before < -static_cast<long>(most_digits)) return std::nullopt;
  if (before <= 0) all_digits.insert(0, static_cast<size_t>(1 - before), '0'), before = 1;
  if (static_cast<size_t>(before) > all_digits.size()) all_digits.append(static_cast<size_t>(before) - all_digits.size(), '0');
  read.whole = all_digits.substr(0, static_cast<size_t>(before));
  read.fraction = all_digits.substr(static_cast<size_t>(before));
  const size_t first = read.whole.find_first_not_of('0');
  read.whole = first == std::string::npos ? "0" : read.whole.substr(first);
  const size_t last = read.fraction.find_last_not_of('0');
  read.fraction.resize(last == std::string::npos ? 0 : last + 1);
  if (read.fraction.size() > most_digits) return std::nullopt;
  if (read.is_zero()) read.negative = false;
  return read;
}

std::optional<std::string> integer_range(const Bounds &bounds) {
  // Turns the bounds into integers that are included, rounding towards the inside.
  const auto inwards = [](const Decimal &bound, bool excluded, bool up) {
    Decimal inside{bound.negative, bound.whole, ""};
    const bool step = excluded || !bound.fraction.empty();
    if (!step) return inside;
    if (bound.negative == up) { // towards zero
      if (!bound.fraction.empty()) return inside.whole == "0" ? Decimal{} : inside;
      if (inside.whole == "0") return up ? Decimal{false, "1", ""} : Decimal{true, "1", ""};
      inside.whole = subtract_one(inside.whole);
      if (inside.whole == "0") inside.negative = false;
      return inside;
    }
    if (inside.is_zero()) inside.negative = !up;
    inside.whole = add_one(inside.whole);
    return inside;
  };
  std::optional<Decimal> low, high;
  if (bounds.low) low = inwards(*bounds.low, bounds.above_low, true);
  if (bounds.high) high = inwards(*bounds.high, bounds.below_high, false);
  Alternatives ways;
  const auto add = [&](const char *sign, const std::optional<std::string> &way) { if (way) ways.add(sign + *way); };
  if (!low || low->negative) {
    const std::string from = high && high->negative ? high->whole : "1";
    add("\"-\" ", whole_range(from, low ? low->whole : open_end(from)));
  }
  if (!high || !high->negative) {
    const std::string from = low && !low->negative ? low->whole : "0";
    add("", whole_range(from, high ? high->whole : open_end(from)));
  }
  if (ways.text.empty()) return std::nullopt;
  return ways.grouped();
}

std::optional<std::string> number_range(const Bounds &bounds) {
  Alternatives ways;
  const auto add = [&](const char *sign, const std::optional<std::string> &way) { if (way) ways.add(sign + *way); };
  const auto &[low, high, above, below] = bounds;
  if (!low || low->negative) {
    const bool ends = high && high->negative;
    add("\"-\" ", decimal_range(ends ? positive_of(*high) : Decimal{}, ends ? below : true, low ? std::optional<Decimal>(positive_of(*low)) : std::nullopt, above));
  }
  if (!high || !high->negative) {
    const bool begins = low && !low->negative;
    add("", decimal_range(begins ? *low : Decimal{}, begins && above, high, below));
  }
  if (ways.text.empty()) return std::nullopt;
  return ways.grouped();
}

} // namespace recua::schema
