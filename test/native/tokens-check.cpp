// Compares native/model/tokens and specials with llama_tokenize() on random texts full of special
// tokens, for each given vocabulary file. tokens.test.ts compiles it and reads its output: how many
// texts were compared, and how many differed.
#include "model/specials.cpp"
#include "model/tokens.cpp"

#include <cstdio>
#include <random>

static std::vector<llama_token> reference(const llama_vocab *vocab, const std::string &text, bool add_special, bool parse_special) {
  std::vector<llama_token> tokens(text.size() * 2 + 16);
  const int32_t count = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(), static_cast<int32_t>(tokens.size()), add_special, parse_special);
  tokens.resize(static_cast<size_t>(count));
  return tokens;
}

int main(int arguments, char **names) {
  llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
  int compared = 0, differences = 0;
  for (int i = 1; i < arguments; i++) {
    auto params = llama_model_default_params();
    params.vocab_only = true;
    llama_model *model = llama_model_load_from_file(names[i], params);
    if (model == nullptr) return 1;
    const llama_vocab *vocab = llama_model_get_vocab(model);
    const recua::Specials specials(vocab);
    std::vector<std::string> parts = {"", " ", "  ", "\n", "\n\n", "\t", "a", "Hello", " world", "<", "<|", "|>", "[", "</", ">", "é", "中", "7"};
    for (llama_token token = 0; token < llama_vocab_n_tokens(vocab); token++) {
      const int kind = LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED | LLAMA_TOKEN_ATTR_UNKNOWN;
      if ((llama_vocab_get_attr(vocab, token) & kind) != 0) parts.push_back(llama_vocab_get_text(vocab, token));
    }
    std::mt19937 random(7);
    for (int n = 0; n < 150; n++) {
      std::string text;
      for (size_t count = random() % 16; count > 0; count--) {
        const std::string &part = parts[random() % (random() % 2 == 0 ? 18 : parts.size())];
        const std::string some = random() % 8 == 0 ? part.substr(0, part.size() / 2) : part;
        // Sometimes so often that its places are not kept.
        for (int times = random() % 32 == 0 ? 200 : 1; times > 0; times--) text += some;
      }
      for (const bool add : {false, true}) {
        for (const bool parse : {false, true}) {
          compared++;
          if (recua::tokenize(vocab, specials, text, {add, parse}) != reference(vocab, text, add, parse)) {
            if (differences++ == 0) std::fprintf(stderr, "%s: %s\n", names[i], text.c_str());
          }
        }
      }
    }
    llama_model_free(model);
  }
  std::printf("{\"compared\":%d,\"differences\":%d}\n", compared, differences);
}
