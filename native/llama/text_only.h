// Lets a caller that has cut a text at its special tokens have the parts tokenized without another
// search for them (cmake/vocabulary-bounds.cmake): that takes the number of special tokens × the
// text, for each part. Part of libllama; any thread.
#pragma once

namespace recua {

// While one lives, llama_tokenize() on this thread takes its text as plain text.
class TextOnly {
public:
  TextOnly();
  ~TextOnly();
  TextOnly(const TextOnly &) = delete;
  TextOnly &operator=(const TextOnly &) = delete;
  static bool wanted();

private:
  const bool before;
};

} // namespace recua
