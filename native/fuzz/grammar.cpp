// A GBNF grammar and a walk over its tokens. Either it is refused with a reason, or it works: the
// allowed tokens are the same whether they are looked up together or tried one by one, and a walk
// that takes only these is never refused.
#include "fuzz/vocabulary.h"
#include "grammar/grammar.h"

#include "common.h"

#include <fuzzer/FuzzedDataProvider.h>

#include <stdexcept>

using namespace recua;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const auto &world = fuzz::vocabulary();
  const PieceTree &tree = world.tree;
  FuzzedDataProvider input(data, size);
  const auto steps = input.ConsumeIntegralInRange<size_t>(0, 24);
  std::vector<uint32_t> picks(steps);
  for (auto &pick : picks) pick = input.ConsumeIntegral<uint16_t>();
  const std::string text = input.ConsumeRemainingBytesAsString();
  Effort work(20u << 20);
  try {
    // Text that comes from JavaScript is UTF-8; llama.cpp's tokenizers throw for some that is not.
    const auto token_named = [&](const std::string &name) {
      try {
        const auto ids = common_tokenize(world.vocab, name, false, true);
        return ids.size() == 1 ? ids.front() : -1;
      } catch (const std::invalid_argument &) {
        return -1;
      }
    };
    const auto spelled = [&](uint32_t first, uint32_t last, Effort &effort) { return tree.spells(first, last, effort); };
    const auto rules = parse_gbnf(text, token_named, tree.size(), spelled, work);
    Grammar grammar(rules, {}, work);
    auto position = grammar.start();
    for (const uint32_t pick : picks) {
      const auto mask = grammar.mask(position, tree, work);
      std::vector<llama_token> allowed;
      for (llama_token token = 0; token < tree.size(); token++) {
        if (mask->allows(token)) allowed.push_back(token);
      }
      for (uint32_t i = 0; i < 32; i++) {
        const auto token = static_cast<llama_token>((pick * 2654435761u + i * 40503u) % static_cast<uint32_t>(tree.size()));
        if (tree.piece(token).empty() && !tree.is_end(token)) continue;
        fuzz::promise(grammar.allows(position, tree, token, work) == mask->allows(token), "the mask agrees with a token tried alone");
      }
      if (allowed.empty()) break;
      const llama_token next = allowed[pick % allowed.size()];
      if (tree.is_end(next)) break;
      const std::string &piece = tree.piece(next);
      fuzz::promise(grammar.accept(position, next, piece.data(), piece.size(), work), "a token of the mask is accepted");
    }
  } catch (const GrammarError &) {
  } catch (const TooMuchWork &) {
  }
  return 0;
}
