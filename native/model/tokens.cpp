// See tokens.h; tokens.test.ts compares the results with llama.cpp's.
#include "model/tokens.h"

#include "cancelled.h"
#include "coded_error.h"
#include "text_only.h"

#include <algorithm>

namespace recua {

namespace {

// Text without special tokens.
void append_text(const llama_vocab *vocab, const char *text, size_t length, std::vector<llama_token> &tokens) {
  const TextOnly text_only;
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
std::string with_spaces(const std::string &text) {
  static const std::string sign = "\xE2\x96\x81";
  std::string spaced;
  size_t at = 0;
  for (size_t next; (next = text.find(sign, at)) != std::string::npos; at = next + sign.size()) spaced.append(text, at, next - at).append(1, ' ');
  return spaced.append(text, at);
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

// PLaMo-2's and RWKV's tokenizers make control tokens of a text that spells them, as of any other
// text; SentencePiece's may join them from pieces.
bool has_control(const llama_vocab *vocab, const std::vector<llama_token> &tokens, size_t from) {
  return std::any_of(tokens.begin() + static_cast<std::ptrdiff_t>(from), tokens.end(),
                     [&](llama_token token) { return token >= 0 && llama_vocab_is_control(vocab, token); });
}

// Behind the first character of each control token whose text begins at a literal place.
std::vector<size_t> control_cuts(const Specials &specials, const std::string &text, const std::vector<bool> &literal, size_t from, size_t to) {
  std::vector<size_t> cuts;
  for (size_t at = from; at < to; at++) {
    if (!literal[at] || !specials.control_at(text, at)) continue;
    size_t end = at + 1;
    while (end < to && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) end++;
    cuts.push_back(end);
  }
  return cuts;
}

} // namespace

bool adds_space_before(const llama_vocab *vocab) {
  std::vector<llama_token> tokens;
  append_text(vocab, "a", 1, tokens);
  return bytes_of(vocab, tokens.data(), tokens.size()) == " a";
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
  throw_if_cancelled(cancelled);
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
  const auto found = specials.find(text, options.parse_special, literal, cancelled);
  Begun begun;
  if (options.known != nullptr) begun = options.known->of(text, found, tokens.empty() ? -1 : tokens.front());
  if (begun.at > 0) tokens = std::move(begun.tokens);
  size_t at = begun.at;
  bool inside = begun.inside_text;
  const bool adds_space = (inside || !options.literal.empty()) && adds_space_before(vocab);
  const auto append = [&](size_t end) {
    throw_if_cancelled(cancelled);
    if (inside) append_rest(vocab, text.substr(at, end - at), adds_space, tokens);
    else append_text(vocab, text.data() + at, end - at, tokens);
    inside = true;
    at = end;
  };
  const auto append_parts = [&](const std::vector<size_t> &ends, size_t end) {
    for (auto cut = std::upper_bound(ends.begin(), ends.end(), at); cut != ends.end() && *cut < end; cut++) append(*cut);
    if (end > at) append(end);
  };
  const auto text_until = [&](size_t end) {
    const size_t count = tokens.size(), begin = at;
    const bool went_on = inside;
    append_parts(cuts, end);
    if (!literal.control.empty() && has_control(vocab, tokens, count)) {
      auto more = control_cuts(specials, text, literal.control, begin, end);
      more.insert(more.end(), cuts.begin(), cuts.end());
      std::sort(more.begin(), more.end());
      tokens.resize(count);
      at = begin;
      inside = went_on;
      append_parts(more, end);
    }
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
