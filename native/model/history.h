// What chats of this model were: the tokens of each prompt and of the answer to it. A prompt whose
// text begins as one of them takes these tokens, and only the rest of it is tokenized. So what a
// model said stays the tokens that it said, however its text would be split, and the next turn of
// a chat finds all of them evaluated. docs/design/exact-history.md says why it is safe. Any thread.
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

  // A chat's prompt and answer. The chat that it goes on from is forgotten for it.
  void remember(std::vector<llama_token> tokens);
  // Whether a chat that is remembered begins so.
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
  // From the token `ends.size()` on, as far as they are the prompt's text: adds where each of them
  // ends in it.
  void follow(const Prompt &prompt, const std::vector<llama_token> &tokens, std::vector<size_t> &ends) const;
  void follow_text(const Prompt &prompt, const std::vector<llama_token> &tokens, size_t until, bool space, std::vector<size_t> &ends) const;
  // How many of the tokens that were followed can stay: the text behind them is tokenized by
  // itself.
  size_t sound(const Prompt &prompt, const std::vector<llama_token> &tokens, const std::vector<size_t> &ends) const;
  bool after_special(const std::vector<llama_token> &tokens, size_t count) const;

  const llama_vocab *vocab;
  const Specials &specials;
  const bool by_bytes; // a text's tokens have its very bytes
  const bool adds_space; // before each text
  mutable std::mutex mutex; // guards what follows
  mutable std::list<Chat> chats; // the one used last is first
  size_t bytes = 0;
};

} // namespace recua
