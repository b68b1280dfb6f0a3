// A sampler's options, read from JS into llama.cpp's struct.
#pragma once

#include "js.h"

#include "llama.h"
#include "sampling.h"

#include <random>

namespace recua {

// JS thread.
void read_numbers(const Options &options, common_params_sampling &params);
void read_logit_bias(const Options &options, common_params_sampling &params);

// What the compile step needs beside the numbers; read on the JS thread.
struct GrammarOptions {
  std::string source, kind = "user", triggers, thinking_start;
  std::vector<std::string> preserved, thinking_ends;

  explicit GrammarOptions(const Options &options);
  // Pool thread. Fills the grammar part of the parameters.
  void apply(const llama_vocab *vocab, common_params_sampling &params) const;
};

} // namespace recua
