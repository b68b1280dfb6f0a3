// Splits random texts into words with every pattern of llama.cpp's pre-tokenizers, twice: with
// std::regex, as llama.cpp does, and with Recua's matcher. regex.test.ts compiles it, with the
// patterns in GROUPS, and reads its output, a JSON object. With an argument it splits long runs of
// one kind of character with Recua's matcher only, and counts its steps.
#define unicode_regex_split_stl own_split
#include "regex.cpp"
#include "regex_compile.cpp"
#include "regex_split.cpp"
#undef unicode_regex_split_stl

#include <cstdint>
#include <string>
#include <vector>
std::vector<size_t> unicode_regex_split_stl(const std::string &text, const std::string &pattern, const std::vector<size_t> &pieces);
std::vector<size_t> unicode_regex_split_stl(const std::wstring &text, const std::wstring &pattern, const std::vector<size_t> &pieces);

#include <unicode.cpp>

#include <cstring>
#include <iostream>
#include <random>

static const std::vector<std::vector<std::string>> groups = {
#include GROUPS
};

static bool count_only = false;
static uint64_t compared = 0, differences = 0;
static double most_steps = 0; // for each character

template <typename Char>
static std::vector<size_t> check(const std::basic_string<Char> &text, const std::basic_string<Char> &pattern, const std::vector<size_t> &pieces) {
  const auto own = own_split(text, pattern, pieces);
  if (!count_only) {
    compared++;
    if (own != unicode_regex_split_stl<Char>(text, pattern, pieces)) differences++;
    return own;
  }
  std::vector<uint32_t> characters;
  for (const Char c : pattern) characters.push_back(sizeof(Char) == 1 ? static_cast<unsigned char>(c) : static_cast<uint32_t>(c));
  const auto program = recua::regex::compile(characters);
  uint64_t steps = 0;
  size_t start = 0;
  for (const size_t length : pieces) { // as split_piece() does
    recua::regex::Matcher<Char> matcher(program, text.data() + start, length);
    size_t begin = 0, end = 0, at = 0;
    while (at <= length && matcher.search(at, begin, end)) at = end > begin ? end : end + 1;
    steps += matcher.steps();
    start += length;
  }
  most_steps = std::max(most_steps, static_cast<double>(steps) / static_cast<double>(text.size() + 1));
  return own;
}

std::vector<size_t> unicode_regex_split_stl(const std::string &text, const std::string &pattern, const std::vector<size_t> &pieces) {
  return check(text, pattern, pieces);
}
std::vector<size_t> unicode_regex_split_stl(const std::wstring &text, const std::wstring &pattern, const std::vector<size_t> &pieces) {
  return check(text, pattern, pieces);
}

static const std::vector<std::vector<std::string>> kinds = {
    {"a", "b", "z", "s", "t", "ll", "ve"}, {"A", "Z", "S", "RE", "D"}, {"0", "7", "9"}, {" ", " ", "  ", "    "},
    {"\n", "\r", "\r\n", "\t", "\v"}, {"'", "'s", "'T", "'Re", "'ll"}, {".", ",", "!", "-", "(", ")", "/", "_", "{", "]", "\\", "\""},
    {"$", "+", "<", "=", "^", "`", "|", "~"}, {"é", "ß", "Ж", "ж", "Ω", "ǆ", "ʰ", "א"}, {"中", "文", "一", "龥"}, {"か", "ナ", "한", "ㄱ", "ㄅ"},
    {"\u0301", "\u093f", "\u0e31"}, {"ก", "ক", "க"}, {"٣", "½", "Ⅷ"}, {"\u00a0", "\u2003", "\u3000", "\u0085"}, {"。", "、", "…", "“", "！"},
    {"€", "©", "🙂", "👩‍👩‍👧"}, {"\u200b", "\u0007", "\ue000", "\U00010400"}, {"IMGIMG", "A", "Z", "<sentinel:", "12>"},
};

int main(int arguments, char **) {
  count_only = arguments > 1;
  std::mt19937 random(20260101);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  std::vector<std::string> texts;
  if (count_only) {
    const size_t length = 1 << 14;
    for (const auto &kind : kinds) {
      std::string run;
      while (run.size() < length) run += kind[0];
      for (const char *tail : {"", "a", "\n", "7"}) texts.push_back(run + tail);
      std::string mixed;
      while (mixed.size() < length) mixed += kind[below(kind.size())];
      texts.push_back(mixed);
    }
    for (const char *pair : {"aA", "Aa", "a ", " a", "1 ", "\n ", "a'", "中a"}) {
      std::string run;
      while (run.size() < length) run += pair;
      texts.push_back(run);
    }
  } else {
    for (int i = 0; i < 150; i++) {
      std::string text;
      const size_t parts = 1 + below(40);
      for (size_t part = 0; part < parts; part++) {
        const auto &kind = kinds[below(kinds.size())];
        for (size_t repeat = below(3) == 0 ? 1 + below(12) : 1; repeat > 0; repeat--) text += kind[below(kind.size())];
      }
      texts.push_back(text);
    }
  }
  for (const auto &group : groups) {
    for (const auto &text : texts) unicode_regex_split(text, group);
  }
  std::cout << "{\"groups\":" << groups.size() << ",\"compared\":" << compared << ",\"differences\":" << differences
            << ",\"mostSteps\":" << most_steps << "}\n";
}
