// See specials.h. The search follows llama.cpp v0.5.0
// (llama_vocab::impl::tokenizer_st_partition): the longest first, each from left to right in the
// remaining text. tokens.test.ts compares the results.
#include "model/specials.h"

#include "cancelled.h"

#include <algorithm>

namespace recua {

namespace {

bool in_brackets(const std::string &text) {
  return text.size() > 2 && ((text.front() == '<' && text.back() == '>') || (text.front() == '[' && text.back() == ']'));
}

// HTML elements, which some vocabularies have as tokens.
bool is_element(const std::string &text) {
  static const std::unordered_set<std::string> names = {
      "a", "b", "blockquote", "body", "br", "caption", "code", "dd", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "head", "hr", "html",
      "i", "img", "li", "ol", "p", "pre", "s", "span", "strong", "sub", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul"};
  if (text.size() < 3 || text.front() != '<' || text.back() != '>') return false;
  const size_t from = text[1] == '/' ? 2 : 1;
  return names.count(text.substr(from, text.size() - from - 1)) > 0;
}

} // namespace

Specials::Specials(const llama_vocab *vocab) : begins(256), nodes(1) {
  std::vector<llama_token> found;
  for (llama_token token = 0; token < llama_vocab_n_tokens(vocab); token++) {
    const int kind = LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED | LLAMA_TOKEN_ATTR_UNKNOWN;
    if ((llama_vocab_get_attr(vocab, token) & kind) != 0) found.push_back(token);
  }
  const auto size = [&](llama_token token) { return std::string(llama_vocab_get_text(vocab, token)).size(); };
  // Exactly llama.cpp's call: std::sort decides the order of tokens with the same length.
  std::sort(found.begin(), found.end(), [&](const llama_token a, const llama_token b) { return size(a) > size(b); });
  std::unordered_set<std::string> known;
  for (const llama_token token : found) {
    const int attributes = llama_vocab_get_attr(vocab, token);
    const bool control = (attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0;
    const std::string written = llama_vocab_get_text(vocab, token);
    Special special{token, written, control, !control && in_brackets(written), is_element(written), (attributes & LLAMA_TOKEN_ATTR_LSTRIP) != 0,
                    (attributes & LLAMA_TOKEN_ATTR_RSTRIP) != 0};
    if (special.text.empty()) continue;
    const auto byte = static_cast<unsigned char>(special.text[0]);
    const std::string first = special.text.substr(0, byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4);
    if ((control || special.mark) && known.insert(first).second) starts.push_back(first);
    tokens.insert(token);
    begins[byte] = true;
    all.push_back(std::move(special));
    insert(all.size() - 1);
  }
}

int32_t Specials::child(int32_t node, unsigned char byte) const {
  const auto found = children.find(static_cast<uint64_t>(node) << 8 | byte);
  return found == children.end() ? -1 : found->second;
}

void Specials::insert(size_t index) {
  int32_t node = 0;
  for (const char c : all[index].text) {
    int32_t next = child(node, static_cast<unsigned char>(c));
    if (next < 0) {
      next = static_cast<int32_t>(nodes.size());
      nodes.emplace_back();
      children[static_cast<uint64_t>(node) << 8 | static_cast<unsigned char>(c)] = next;
    }
    node = next;
    if (all[index].control) nodes[static_cast<size_t>(node)].control = true;
  }
  nodes[static_cast<size_t>(node)].ends.push_back(index);
}

bool Specials::control_at(const std::string &text, size_t at) const {
  int32_t node = 0;
  for (; at < text.size(); at++) {
    node = child(node, static_cast<unsigned char>(text[at]));
    if (node < 0 || !nodes[static_cast<size_t>(node)].control) return false;
    for (const size_t index : nodes[static_cast<size_t>(node)].ends) {
      if (all[index].control) return true;
    }
  }
  return true;
}

bool Specials::mark_at(const std::string &text, size_t at, const std::string &source) const {
  int32_t node = 0;
  for (; at < text.size(); at++) {
    node = child(node, static_cast<unsigned char>(text[at]));
    if (node < 0) return false;
    for (const size_t index : nodes[static_cast<size_t>(node)].ends) {
      if (all[index].mark && (!all[index].element || source.find(all[index].text) != std::string::npos)) return true;
    }
  }
  return false;
}

size_t Specials::Places::next(const std::string &text, const std::string &token, size_t from) {
  if (everywhere) return text.find(token, from);
  while (read < at.size() && at[read] < from) read++;
  return read < at.size() ? at[read] : std::string::npos;
}

// Steps: the text's length × the longest token. A token that is in every eighth place, such as each
// of the runs of spaces in a text of spaces, is searched for again later: few can be. So is one
// that comes when enough places are kept.
std::map<size_t, Specials::Places> Specials::places_in(const std::string &text, const volatile int32_t *cancelled) const {
  std::map<size_t, Places> places;
  const size_t most = 64 + text.size() / 8, most_together = 65536 + 4 * text.size();
  size_t kept = 0;
  for (size_t at = 0; at < text.size(); at++) {
    if (at % 65536 == 0) throw_if_cancelled(cancelled);
    if (!begins[static_cast<unsigned char>(text[at])]) continue;
    int32_t node = 0;
    for (size_t end = at; end < text.size(); end++) {
      node = child(node, static_cast<unsigned char>(text[end]));
      if (node < 0) break;
      for (const size_t index : nodes[static_cast<size_t>(node)].ends) {
        auto &found = places[index];
        if (found.everywhere) continue;
        found.at.push_back(at);
        kept++;
        if (found.at.size() <= most && kept <= most_together) continue;
        kept -= found.at.size();
        found.everywhere = true;
        std::vector<size_t>().swap(found.at);
      }
    }
  }
  return places;
}

std::vector<Specials::Found> Specials::find(const std::string &text, bool control, const Literal &literal,
                                            const volatile int32_t *cancelled) const {
  std::vector<Found> found;
  std::vector<bool> taken(text.size(), false);
  auto places = places_in(text, cancelled);
  for (auto &[index, of_one] : places) {
    const Special &special = all[index];
    if (special.control && !control) continue;
    throw_if_cancelled(cancelled);
    const auto &stays_text = special.control ? literal.control : literal.any;
    for (size_t from = 0; (from = of_one.next(text, special.text, from)) != std::string::npos;) {
      if (!stays_text.empty() && stays_text[from]) {
        from++;
        continue;
      }
      const size_t end = from + special.text.size();
      size_t free = end; // no byte from here to the end of the match is taken
      while (free > from && !taken[free - 1]) free--;
      if (free > from) {
        from = free;
        continue;
      }
      Found match{from, special.text.size(), special.token};
      const auto take = [&](size_t at) {
        if (!is_space(text[at]) || taken[at]) return false;
        return taken[at] = true, true;
      };
      if (special.takes_before) {
        while (match.before < from && take(from - match.before - 1)) match.before++;
      }
      if (special.takes_after) {
        while (end + match.after < text.size() && take(end + match.after)) match.after++;
      }
      std::fill(taken.begin() + static_cast<std::ptrdiff_t>(from), taken.begin() + static_cast<std::ptrdiff_t>(end), true);
      found.push_back(match);
      from = end;
    }
  }
  std::sort(found.begin(), found.end(), [](const Found &a, const Found &b) { return a.at < b.at; });
  return found;
}

} // namespace recua
