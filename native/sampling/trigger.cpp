// What triggers, and from where on the text counts, follows llama_grammar_accept_impl of llama.cpp
// v0.5.0 (src/llama-grammar.cpp).
#include "sampling/trigger.h"

#include <algorithm>

namespace recua {

namespace {

// How far back patterns look, in bytes: std::regex uses stack for each repetition, and each token
// would read the whole answer again.
constexpr size_t pattern_window = 2048;
// A longer piece is read in steps, so that a match of up to half a window is always within one.
constexpr size_t pattern_step = pattern_window / 2;

// The start of the first group that matched something, or of the whole match.
size_t start_of(const std::smatch &match) {
  for (size_t i = 1; i < match.size(); i++) {
    if (match.length(i) > 0) return static_cast<size_t>(match.position(i));
  }
  return static_cast<size_t>(match.position(0));
}

} // namespace

Triggers::Triggers(const std::vector<common_grammar_trigger> &given) {
  for (const auto &[type, value, token] : given) {
    const bool begun = !value.empty() && value.front() == '^';
    const bool ended = !value.empty() && value.back() == '$';
    switch (type) {
      case COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN: tokens.push_back(token); break;
      case COMMON_GRAMMAR_TRIGGER_TYPE_WORD: words.push_back(value); break;
      case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN:
        patterns.push_back({std::regex(value), begun && ended});
        break;
      case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL:
        patterns.push_back({std::regex((begun ? "" : "^") + value + (ended ? "" : "$")), true});
        break;
    }
  }
}

// Where the grammar's part of the text begins; npos if nothing has triggered yet. `added`: number
// of new bytes.
size_t Trigger::find(size_t added) const {
  for (const auto &word : triggers->words) {
    const size_t from = text.size() - std::min(text.size(), added + word.size());
    const size_t found = text.find(word, from);
    if (found != std::string::npos) return found;
  }
  for (const auto &[regex, whole] : triggers->patterns) {
    size_t stop = text.size() - added;
    do {
      stop = std::min(text.size(), stop + pattern_step);
      const size_t from = stop - std::min(stop, pattern_window);
      const auto begin = text.begin() + static_cast<std::ptrdiff_t>(from);
      const auto end = text.begin() + static_cast<std::ptrdiff_t>(stop);
      std::smatch match;
      if (whole && from == 0 && stop == text.size() && std::regex_match(begin, end, match, regex))
        return start_of(match);
      auto flags = std::regex_constants::match_default;
      if (from > 0) flags |= std::regex_constants::match_not_bol;
      if (stop < text.size()) flags |= std::regex_constants::match_not_eol;
      if (std::regex_search(begin, end, match, regex, flags)) return from + start_of(match);
    } while (stop < text.size());
  }
  return std::string::npos;
}

bool Trigger::accept(llama_token token, const std::string &bytes, std::vector<Piece> &out) {
  out.clear();
  if (std::find(triggers->tokens.begin(), triggers->tokens.end(), token) !=
      triggers->tokens.end()) {
    out.push_back({token, bytes});
    return true;
  }
  text += bytes;
  ends.emplace_back(token, text.size());
  const size_t start = find(bytes.size());
  if (start == std::string::npos) return false;
  size_t begin = 0;
  for (const auto &[one, end] : ends) {
    if (end > start)
      out.push_back({begin >= start ? one : -1,
                     text.substr(std::max(begin, start), end - std::max(begin, start))});
    begin = end;
  }
  return true;
}

} // namespace recua
