// Sampler options, read from JS into llama.cpp's struct.
#pragma once

#include "addon.h"

#include "llama.h"
#include "sampling.h"

#include "sampling/thoughts.h"

#include <memory>
#include <string>
#include <vector>

namespace recua {

// The constraint on the answer: a grammar's text, or what a chat template requires.
struct GrammarSource {
  std::string source, kind = "user", generation_prompt;
  std::shared_ptr<const ChatShape> shape; // when a lazy grammar begins, and which tokens it must see; may be null

  GrammarSource() = default;
  explicit GrammarSource(const Options &options); // JS thread
  explicit GrammarSource(const AnswerShape &answer);
  // Pool thread. Fills the grammar part of the parameters.
  void apply(ModelState &model, common_params_sampling &params, bool after_thoughts) const;
};

// The ingredients of a sampler, except the tokens before the answer.
struct SamplerRequest {
  common_params_sampling params;
  GrammarSource grammar;
  ThoughtsOptions thoughts;
  bool after_thoughts = false; // a grammar that is not lazy is suspended while the model thinks
  bool by_chain = false;
  bool draws_by_chain = false; // the request names samplers, or wants probabilities after sampling
  bool draft = false;
  std::vector<llama_token> predicted; // text that the answer may resemble
  std::vector<llama_token> prompt;    // the prompt as another process read it; empty: as this one does
  int32_t logprobs = -1;              // likeliest tokens to report beside each token; -1: report nothing
  bool after_sampling = false;
  int32_t least_tokens = 0; // before an end token

  explicit SamplerRequest(const Options &options); // JS thread
  // Pool thread, once. Throws `invalid_grammar` if there is a grammar and it cannot be used,
  // `chat_unsupported` if it does not begin as the answer does in the prompt, and `cancelled`.
  SamplerParts make(const std::shared_ptr<ModelState> &model, const std::vector<llama_token> &own_prompt,
                    const volatile int32_t *cancelled = nullptr);
};

} // namespace recua
