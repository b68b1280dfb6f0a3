// A sampler's options, read from JS into llama.cpp's struct.
#pragma once

#include "addon.h"

#include "llama.h"
#include "sampling.h"

#include "sampling/thoughts.h"

#include <memory>
#include <string>
#include <vector>

namespace recua {

// What constrains the answer: a grammar's text, or what a chat template asks for.
struct GrammarSource {
  std::string source, kind = "user", generation_prompt;
  std::shared_ptr<const ChatShape> shape; // when a lazy grammar begins, and what it must see; null where there is none

  GrammarSource() = default;
  explicit GrammarSource(const Options &options); // JS thread
  explicit GrammarSource(const AnswerShape &answer);
  // Pool thread. Fills the grammar part of the parameters.
  void apply(const llama_vocab *vocab, common_params_sampling &params, bool after_thoughts) const;
};

// All that a sampler is made of beside the tokens before the answer.
struct SamplerRequest {
  common_params_sampling params;
  GrammarSource grammar;
  ThoughtsOptions thoughts;
  bool after_thoughts = false; // a grammar that is not lazy rests while the model thinks
  bool by_chain = false;
  bool draws_by_chain = false; // the samplers are named, or what they leave is to be told
  bool draft = false;
  std::vector<llama_token> predicted; // what the answer may be like
  int32_t logprobs = -1;              // likeliest tokens told beside each that comes; -1: nothing is
  bool after_sampling = false;
  int32_t least_tokens = 0; // before an end

  explicit SamplerRequest(const Options &options); // JS thread
  // Pool thread, once. Throws `invalid_grammar` where there is a grammar and it cannot be used.
  SamplerParts make(const std::shared_ptr<ModelState> &model, const std::vector<llama_token> &history);
};

} // namespace recua
