// The chats this model has had: the tokens of each prompt and of its answer. A prompt whose text
// begins with one of them takes these tokens, and only the rest is tokenized. So an answer keeps
// the tokens that the model generated, however its text would be split, and the next turn of the
// chat finds all of them evaluated. docs/design/exact-history.md says why that is safe. Any thread.
#pragma once

#include "model/tokens.h"

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace recua {

class History : public Beginnings {
public:
  static constexpr size_t most = 256;
  static constexpr size_t most_bytes = 16u << 20;

  History(const llama_vocab *vocab, const Specials &specials);

  // Stores a chat: prompt and answer. Replaces the chat that it continues.
  void remember(std::vector<llama_token> tokens);
  // Whether a stored chat begins with these tokens.
  bool knows(const std::vector<llama_token> &tokens) const;
  void forget();
  Begun of(const std::string &text, const std::vector<Specials::Found> &found, llama_token first) const override;

private:
  using Chat = std::shared_ptr<const std::vector<llama_token>>;
  struct Prompt {
    const std::string &text;
    const std::vector<Specials::Found> &found;
    llama_token first;
  };
  std::vector<Chat> newest_first() const;
  void use(const Chat &chat) const;
  // Follows the tokens from index `ends.size()` on, as long as they spell the prompt's text, and
  // appends the byte at which each of them ends.
  void follow(const Prompt &prompt, const std::vector<llama_token> &tokens, std::vector<size_t> &ends) const;
  void follow_text(const Prompt &prompt, const std::vector<llama_token> &tokens, size_t until, bool space, std::vector<size_t> &ends) const;
  // How many of the followed tokens can stay; the text behind them is tokenized by itself.
  size_t sound(const Prompt &prompt, const std::vector<llama_token> &tokens, const std::vector<size_t> &ends) const;
  bool after_special(const std::vector<llama_token> &tokens, size_t count) const;

  const llama_vocab *vocab;
  const Specials &specials;
  const bool by_bytes; // a text's tokens spell exactly its bytes
  const bool adds_space; // the tokenizer adds one before each text
  mutable std::mutex mutex; // guards the members below
  mutable std::list<Chat> chats; // most recently used first
  size_t bytes = 0;
};

} // namespace recua
