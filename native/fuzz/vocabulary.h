// The basis of the fuzz targets: the built-in model's vocabulary, and a way to report a broken
// promise. libFuzzer calls each target on one thread.
#pragma once

#include "grammar/piece_tree.h"
#include "model/tokens.h"

#include "llama.h"
#include "log.h"

#include <cstdio>
#include <cstdlib>

namespace recua::fuzz {

struct Vocabulary {
  llama_model *model;
  const llama_vocab *vocab;
  PieceTree tree;
  Specials specials;

  explicit Vocabulary(llama_model *model)
      : model(model), vocab(llama_model_get_vocab(model)), tree(vocab), specials(vocab) {}
};

// Made once; RECUA_FUZZ_MODEL names the file.
inline const Vocabulary &vocabulary() {
  static const Vocabulary made([] {
    common_log_pause(common_log_main());
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    const char *path = std::getenv("RECUA_FUZZ_MODEL");
    auto params = llama_model_default_params();
    params.vocab_only = true;
    llama_model *model = llama_model_load_from_file(path == nullptr ? RECUA_FUZZ_MODEL : path, params);
    if (model == nullptr) {
      std::fprintf(stderr, "The model cannot be read; RECUA_FUZZ_MODEL names its file.\n");
      std::exit(2);
    }
    return model;
  }());
  return made;
}

// A broken promise ends the run; libFuzzer keeps the input.
inline void promise(bool holds, const char *what) {
  if (holds) return;
  std::fprintf(stderr, "Broken: %s\n", what);
  std::abort();
}

} // namespace recua::fuzz
