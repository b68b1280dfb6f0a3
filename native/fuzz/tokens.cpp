// A text, and places in it that must stay text. Without such places its tokens are llama.cpp's;
// with them, no control token begins at one.
#include "fuzz/vocabulary.h"

#include "common.h"

#include <fuzzer/FuzzedDataProvider.h>

using namespace recua;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const auto &world = fuzz::vocabulary();
  FuzzedDataProvider input(data, size);
  TokenizeOptions options;
  options.add_special = input.ConsumeBool();
  options.parse_special = input.ConsumeBool();
  std::vector<std::pair<uint16_t, bool>> places(input.ConsumeIntegralInRange<size_t>(0, 8));
  for (auto &place : places) place = {input.ConsumeIntegral<uint16_t>(), input.ConsumeBool()};
  const std::string text = input.ConsumeRemainingBytesAsString();
  std::vector<llama_token> tokens;
  try {
    tokens = tokenize(world.vocab, world.specials, text, options);
  } catch (const std::exception &) { // not UTF-8; text from JavaScript always is
    return 0;
  }
  fuzz::promise(tokens == common_tokenize(world.vocab, text, options.add_special, options.parse_special), "the tokens are llama.cpp's");
  if (text.empty()) return 0;

  for (const auto &[place, any] : places) {
    const auto at = static_cast<int32_t>(place % text.size());
    options.literal.push_back(any ? ~at : at);
  }
  tokenize(world.vocab, world.specials, text, options);
  // Every byte of the text may have to stay text.
  options.literal.clear();
  for (size_t at = 0; at < text.size(); at++) options.literal.push_back(static_cast<int32_t>(at));
  options.parse_special = true;
  for (const llama_token token : tokenize(world.vocab, world.specials, text, options)) {
    const bool is_added = options.add_special && (token == llama_vocab_bos(world.vocab) || token == llama_vocab_eos(world.vocab));
    fuzz::promise(is_added || (llama_vocab_get_attr(world.vocab, token) & LLAMA_TOKEN_ATTR_CONTROL) == 0, "text that is kept has no control token");
  }
  return 0;
}
