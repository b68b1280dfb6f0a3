// See history.h.
#include "model/history.h"

#include "grammar/piece_tree.h"

#include <algorithm>

namespace recua {

namespace {

using Tokens = std::vector<llama_token>;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

size_t size_of(const Tokens &tokens) { return tokens.size() * sizeof(llama_token) + 128; }

bool begins(const Tokens &shorter, const Tokens &longer) {
  return shorter.size() <= longer.size() && std::equal(shorter.begin(), shorter.end(), longer.begin());
}

bool has_bytes(const llama_vocab *vocab) {
  const auto type = llama_vocab_type(vocab);
  return type == LLAMA_VOCAB_TYPE_SPM || type == LLAMA_VOCAB_TYPE_BPE || type == LLAMA_VOCAB_TYPE_RWKV;
}

// True if a word begins here: a token boundary, whatever comes before and after it.
bool begins_word(const std::string &text, size_t at) {
  return at > 0 && at + 1 < text.size() && text[at] == ' ' && !is_space(text[at - 1]) && !is_space(text[at + 1]);
}

} // namespace

History::History(const llama_vocab *vocab, const Specials &specials)
    : vocab(vocab), specials(specials), by_bytes(has_bytes(vocab)), adds_space(adds_space_before(vocab)) {}

void History::remember(Tokens tokens) {
  if (!by_bytes || size_of(tokens) > most_bytes) return;
  const std::lock_guard<std::mutex> lock(mutex);
  for (auto chat = chats.begin(); chat != chats.end();) {
    if (begins(tokens, **chat)) {
      chats.splice(chats.begin(), chats, chat);
      return;
    }
    if (begins(**chat, tokens)) {
      bytes -= size_of(**chat);
      chat = chats.erase(chat);
    } else {
      ++chat;
    }
  }
  bytes += size_of(tokens);
  chats.push_front(std::make_shared<const Tokens>(std::move(tokens)));
  while (chats.size() > most || bytes > most_bytes) {
    bytes -= size_of(*chats.back());
    chats.pop_back();
  }
}

bool History::knows(const Tokens &tokens) const {
  const std::lock_guard<std::mutex> lock(mutex);
  return std::any_of(chats.begin(), chats.end(), [&](const Chat &chat) { return begins(tokens, *chat); });
}

void History::forget() {
  const std::lock_guard<std::mutex> lock(mutex);
  chats.clear();
  bytes = 0;
}

std::vector<History::Chat> History::newest_first() const {
  const std::lock_guard<std::mutex> lock(mutex);
  return {chats.begin(), chats.end()};
}

void History::use(const Chat &chat) const {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = std::find(chats.begin(), chats.end(), chat);
  if (found != chats.end()) chats.splice(chats.begin(), chats, found);
}

Begun History::of(const std::string &text, const std::vector<Specials::Found> &found, llama_token first) const {
  const Prompt prompt{text, found, first};
  Chat best;
  std::vector<size_t> ends; // for `best`: where in the text each followed token ends
  for (const Chat &chat : newest_first()) {
    const size_t most_common = std::min(ends.size(), chat->size());
    const size_t common = best == nullptr ? 0 : static_cast<size_t>(std::mismatch(chat->begin(), chat->begin() + static_cast<std::ptrdiff_t>(most_common), best->begin()).first - chat->begin());
    std::vector<size_t> other(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(common));
    follow(prompt, *chat, other);
    if (other.empty()) continue;
    // Of two chats with the same text, the one with fewer tokens is closer to the normal
    // tokenization. So nobody can make others, who have their own chat, continue from an answer
    // split into odd pieces.
    const bool better = ends.empty() || other.back() > ends.back() || (other.back() == ends.back() && other.size() < ends.size());
    if (!better) continue;
    best = chat;
    ends = std::move(other);
  }
  Begun begun;
  if (best == nullptr) return begun;
  const size_t count = sound(prompt, *best, ends);
  if (count == 0 || ends[count - 1] == 0) return begun;
  use(best);
  begun.tokens.assign(best->begin(), best->begin() + static_cast<std::ptrdiff_t>(count));
  begun.at = ends[count - 1];
  begun.inside_text = !after_special(*best, count);
  return begun;
}

bool History::after_special(const Tokens &tokens, size_t count) const {
  return count == 0 || specials.contains(tokens[count - 1]);
}

void History::follow(const Prompt &prompt, const Tokens &tokens, std::vector<size_t> &ends) const {
  const auto &[text, found, first] = prompt;
  if (first >= 0 && ends.empty()) {
    if (tokens.empty() || tokens[0] != first) return;
    ends.push_back(0);
  }
  size_t at = ends.empty() ? 0 : ends.back();
  auto next = std::lower_bound(found.begin(), found.end(), at, [](const Specials::Found &one, size_t place) { return one.at - one.before < place; });
  while (ends.size() < tokens.size()) {
    if (next != found.end() && next->at - next->before == at) {
      if (tokens[ends.size()] != next->token) return;
      at = next->at + next->length + next->after;
      ends.push_back(at);
      ++next;
      continue;
    }
    const size_t until = next == found.end() ? text.size() : next->at - next->before;
    const size_t before = ends.size();
    const bool begins = after_special(tokens, before) || (first >= 0 && before == 1);
    follow_text(prompt, tokens, until, false, ends);
    if (begins && adds_space) {
      std::vector<size_t> other(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(before));
      follow_text(prompt, tokens, until, true, other);
      if (other.size() > before && (ends.size() == before || other.back() > ends.back())) ends = std::move(other);
    }
    if (ends.size() == before || ends.back() < until) return;
    at = until;
  }
}

void History::follow_text(const Prompt &prompt, const Tokens &tokens, size_t until, bool space, std::vector<size_t> &ends) const {
  size_t at = ends.empty() ? 0 : ends.back();
  while (ends.size() < tokens.size() && at < until && !specials.contains(tokens[ends.size()])) {
    const llama_token token = tokens[ends.size()];
    if (token < 0 || token >= llama_vocab_n_tokens(vocab)) return; // damaged file
    const std::string piece = token_bytes(vocab, token, true);
    const size_t added = space && !piece.empty() && piece[0] == ' ' ? 1 : 0;
    if (space && added == 0) return;
    space = false;
    const size_t length = piece.size() - added;
    if (piece.empty() || length > until - at || prompt.text.compare(at, length, piece, added, length) != 0) return;
    at += length;
    ends.push_back(at);
  }
}

size_t History::sound(const Prompt &prompt, const Tokens &tokens, const std::vector<size_t> &ends) const {
  const auto &[text, found, first] = prompt;
  size_t count = ends.size();
  if (count == 0) return 0;
  // The answer ended here by itself.
  if (count < tokens.size() && llama_vocab_is_eog(vocab, tokens[count])) return count;
  const size_t reached = ends.back();
  const auto next = std::lower_bound(found.begin(), found.end(), reached, [](const Specials::Found &one, size_t place) { return one.at - one.before < place; });
  if (reached == text.size() || (next != found.end() && next->at - next->before == reached)) return count;
  while (count > 0 && !after_special(tokens, count) && !begins_word(text, ends[count - 1])) count--;
  return count;
}

} // namespace recua
