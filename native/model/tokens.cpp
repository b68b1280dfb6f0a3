// See tokens.h. The search for special tokens follows llama.cpp v0.5.0
// (llama_vocab::impl::tokenizer_st_partition): the longest first, each from left to right in the
// remaining text. tokens.test.ts compares the results.
#include "model/tokens.h"

#include "coded_error.h"

#include <algorithm>

namespace recua {

namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

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

void append_text(const llama_vocab *vocab, const char *text, size_t length, std::vector<llama_token> &tokens) {
  const size_t begin = tokens.size();
  size_t room = length + 8; // a token is at least one byte
  for (;;) {
    tokens.resize(begin + room);
    const int32_t count = llama_tokenize(vocab, text, static_cast<int32_t>(length), tokens.data() + begin,
                                         static_cast<int32_t>(room), false, false);
    if (count >= 0) {
      tokens.resize(begin + static_cast<size_t>(count));
      return;
    }
    room = static_cast<size_t>(-static_cast<int64_t>(count));
  }
}

std::string bytes_of(const llama_vocab *vocab, const llama_token *tokens, size_t count) {
  std::string bytes, piece(64, '\0');
  for (size_t i = 0; i < count; i++) {
    int32_t length = llama_token_to_piece(vocab, tokens[i], piece.data(), static_cast<int32_t>(piece.size()), 0, true);
    if (length < 0) {
      piece.resize(static_cast<size_t>(-length));
      length = llama_token_to_piece(vocab, tokens[i], piece.data(), static_cast<int32_t>(piece.size()), 0, true);
    }
    bytes.append(piece, 0, static_cast<size_t>(length));
  }
  return bytes;
}

// As vocabularies that add a space decode it: U+2581 is their only sign for a space.
std::string with_spaces(std::string text) {
  static const std::string sign = "\xE2\x96\x81";
  for (size_t at = 0; (at = text.find(sign, at)) != std::string::npos; at++) text.replace(at, sign.size(), " ");
  return text;
}

// Appends the rest of a text, without the space that some vocabularies add before each text.
void append_rest(const llama_vocab *vocab, const std::string &text, bool adds_space, std::vector<llama_token> &tokens) {
  // A line break does not merge with what follows it, and no space is added after it.
  static const std::string before = "\n";
  if (adds_space) {
    std::vector<llama_token> head, whole;
    append_text(vocab, before.data(), before.size(), head);
    append_text(vocab, (before + text).data(), before.size() + text.size(), whole);
    const bool parted = whole.size() >= head.size() && std::equal(head.begin(), head.end(), whole.begin());
    if (parted && bytes_of(vocab, whole.data() + head.size(), whole.size() - head.size()) == with_spaces(text)) {
      tokens.insert(tokens.end(), whole.begin() + static_cast<std::ptrdiff_t>(head.size()), whole.end());
      return;
    }
  }
  append_text(vocab, text.data(), text.size(), tokens);
}

} // namespace

bool adds_space_before(const llama_vocab *vocab) {
  std::vector<llama_token> tokens;
  append_text(vocab, "a", 1, tokens);
  return bytes_of(vocab, tokens.data(), tokens.size()) == " a";
}

Specials::Specials(const llama_vocab *vocab) : nodes(1) {
  std::vector<llama_token> found;
  for (llama_token token = 0; token < llama_vocab_n_tokens(vocab); token++) {
    const int kind = LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED | LLAMA_TOKEN_ATTR_UNKNOWN;
    if ((llama_vocab_get_attr(vocab, token) & kind) != 0) found.push_back(token);
  }
  const auto size = [&](llama_token token) { return std::string(llama_vocab_get_text(vocab, token)).size(); };
  // Exactly llama.cpp's call: std::sort decides the order of tokens with the same length.
  std::sort(found.begin(), found.end(), [&](const llama_token a, const llama_token b) { return size(a) > size(b); });
  for (const llama_token token : found) {
    const int attributes = llama_vocab_get_attr(vocab, token);
    const bool control = (attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0;
    const std::string written = llama_vocab_get_text(vocab, token);
    Special special{token, written, control, !control && in_brackets(written), is_element(written), (attributes & LLAMA_TOKEN_ATTR_LSTRIP) != 0,
                    (attributes & LLAMA_TOKEN_ATTR_RSTRIP) != 0};
    if (special.text.empty()) continue;
    const auto byte = static_cast<unsigned char>(special.text[0]);
    const std::string first = special.text.substr(0, byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4);
    if ((control || special.mark) && std::find(starts.begin(), starts.end(), first) == starts.end()) starts.push_back(first);
    tokens.insert(token);
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

// Which special tokens occur in the text at all. Steps: the text's length × the longest token.
std::vector<bool> Specials::occurring(const std::string &text) const {
  std::vector<bool> occurs(all.size(), false);
  std::vector<bool> begins(256, false);
  for (const auto &special : all) begins[static_cast<unsigned char>(special.text[0])] = true;
  for (size_t at = 0; at < text.size(); at++) {
    if (!begins[static_cast<unsigned char>(text[at])]) continue;
    int32_t node = 0;
    for (size_t end = at; end < text.size(); end++) {
      node = child(node, static_cast<unsigned char>(text[end]));
      if (node < 0) break;
      for (const size_t index : nodes[static_cast<size_t>(node)].ends) occurs[index] = true;
    }
  }
  return occurs;
}

std::vector<Specials::Found> Specials::find(const std::string &text, bool control, const Literal &literal) const {
  std::vector<Found> found;
  std::vector<bool> taken(text.size(), false);
  const auto occurs = occurring(text);
  for (size_t index = 0; index < all.size(); index++) {
    const Special &special = all[index];
    if (!occurs[index] || (special.control && !control)) continue;
    for (size_t from = 0; (from = text.find(special.text, from)) != std::string::npos;) {
      const size_t end = from + special.text.size();
      size_t free = end; // no byte from here to the end of the match is taken
      while (free > from && !taken[free - 1]) free--;
      if (free > from) {
        from = free;
        continue;
      }
      const auto &stays_text = special.control ? literal.control : literal.any;
      if (!stays_text.empty() && stays_text[from]) {
        from++;
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

void check_wanted(const volatile int32_t *cancelled) {
  if (cancelled != nullptr && *cancelled != 0) throw CodedError("cancelled", "The request was cancelled.");
}

void check_tokens(const llama_vocab *vocab, const std::vector<llama_token> &tokens) {
  const int32_t count = llama_vocab_n_tokens(vocab);
  for (const llama_token token : tokens) {
    if (token >= 0 && token < count) continue;
    throw CodedError("invalid_argument", "Expected tokens from 0 to " + std::to_string(count - 1) + ", got " + std::to_string(token) + ".");
  }
}

std::vector<llama_token> tokenize(const llama_vocab *vocab, const Specials &specials, const std::string &text,
                                  const TokenizeOptions &options, const volatile int32_t *cancelled) {
  check_wanted(cancelled);
  Specials::Literal literal;
  // llama.cpp finds marks itself in the text it gets, so end a piece of text after the bracket that
  // begins one.
  std::vector<size_t> cuts;
  if (!options.literal.empty()) literal.control.resize(text.size(), false);
  for (const int32_t place : options.literal) {
    const auto at = static_cast<size_t>(place < 0 ? ~place : place);
    if (at >= text.size()) continue;
    literal.control[at] = true;
    if (place >= 0) continue;
    literal.any.resize(text.size(), false);
    literal.any[at] = true;
    cuts.push_back(at + 1);
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<llama_token> tokens;
  std::vector<llama_token> around(8); // the tokens before and after a text
  if (options.add_special) {
    const int32_t count = llama_tokenize(vocab, "", 0, around.data(), static_cast<int32_t>(around.size()), true, false);
    around.resize(static_cast<size_t>(std::max(count, 0)));
    const bool begins = around.size() == 2 || (around.size() == 1 && llama_vocab_get_add_bos(vocab));
    if (begins) tokens.push_back(around.front());
    if (begins) around.erase(around.begin());
  } else {
    around.clear();
  }
  const auto found = specials.find(text, options.parse_special, literal);
  Begun begun;
  if (options.known != nullptr) begun = options.known->of(text, found, tokens.empty() ? -1 : tokens.front());
  if (begun.at > 0) tokens = std::move(begun.tokens);
  size_t at = begun.at;
  bool inside = begun.inside_text;
  const bool adds_space = (inside || !cuts.empty()) && adds_space_before(vocab);
  const auto append = [&](size_t end) {
    if (inside) append_rest(vocab, text.substr(at, end - at), adds_space, tokens);
    else append_text(vocab, text.data() + at, end - at, tokens);
    inside = true;
    at = end;
  };
  const auto text_until = [&](size_t end) {
    check_wanted(cancelled);
    for (auto cut = std::upper_bound(cuts.begin(), cuts.end(), at); cut != cuts.end() && *cut < end; cut++) append(*cut);
    if (end > at) append(end);
    inside = false;
  };
  for (const auto &special : found) {
    if (special.at < begun.at) continue;
    text_until(special.at - special.before);
    tokens.push_back(special.token);
    at = special.at + special.length + special.after;
  }
  text_until(text.size());
  tokens.insert(tokens.end(), around.begin(), around.end());
  return tokens;
}

namespace {

size_t find_longest_piece(const llama_vocab *vocab) {
  const auto type = llama_vocab_type(vocab);
  // Other types drop characters, or make one token of any number of unknown ones.
  if (type != LLAMA_VOCAB_TYPE_SPM && type != LLAMA_VOCAB_TYPE_BPE && type != LLAMA_VOCAB_TYPE_RWKV) return 0;
  size_t longest = 4; // bytes of a character
  size_t spelled = 0, written = 0;
  for (llama_token token = 0; token < llama_vocab_n_tokens(vocab); token++) {
    const std::string text = llama_vocab_get_text(vocab, token);
    longest = std::max(longest, text.size());
    const auto first = static_cast<unsigned char>(text[0]);
    // A byte is spelled as one of GPT-2's characters, ! to U+0143, or written as <0x0A>.
    if (text.size() == 1) spelled += first > ' ' && first < 0x7F;
    if (text.size() == 2) {
      const unsigned character = (first & 0x1Fu) << 6 | (static_cast<unsigned char>(text[1]) & 0x3Fu);
      spelled += character >= 0xA1 && character <= 0x143 && character != 0xAD;
    }
    written += text.size() == 6 && text.compare(0, 3, "<0x") == 0;
  }
  // Otherwise BPE drops the bytes that it has no token for.
  if (type == LLAMA_VOCAB_TYPE_BPE && spelled < 256 && written < 256) return 0;
  return longest;
}

bool find_space_takers(const llama_vocab *vocab) {
  for (llama_token token = 0; token < llama_vocab_n_tokens(vocab); token++) {
    if ((llama_vocab_get_attr(vocab, token) & (LLAMA_TOKEN_ATTR_LSTRIP | LLAMA_TOKEN_ATTR_RSTRIP)) != 0) return true;
  }
  return false;
}

} // namespace

LengthBound::LengthBound(const llama_vocab *vocab)
    : longest_piece(find_longest_piece(vocab)), takes_spaces(find_space_takers(vocab)) {}

size_t LengthBound::bytes(const std::string &text) const {
  if (!takes_spaces) return text.size();
  // Spaces beside such a token vanish, and these may be the spaces that the text has; count none.
  return text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), is_space));
}

std::string trimmed(const std::string &text) {
  size_t from = 0, to = text.size();
  while (from < to && is_space(text[from])) from++;
  while (to > from && is_space(text[to - 1])) to--;
  return text.substr(from, to - from);
}

} // namespace recua
