// A JSON schema. Either it is refused with a JSON pointer, or it becomes a grammar that the grammar
// parser accepts.
#include "fuzz/vocabulary.h"
#include "grammar/grammar.h"
#include "schema/schema.h"

#include "common.h"

using namespace recua;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const auto &world = fuzz::vocabulary();
  const std::string text(reinterpret_cast<const char *>(data), size);
  std::vector<schema::Loss> losses;
  std::string grammar;
  try {
    grammar = schema::refusing(-1, [&] { return schema::convert(text, &losses); });
  } catch (const std::exception &) { // not JSON, or refused
    return 0;
  }
  for (const auto &loss : losses) {
    fuzz::promise(loss.pointer.empty() || loss.pointer[0] == '/', "what is not enforced has a JSON pointer");
    fuzz::promise(!loss.why.empty(), "what is not enforced has a reason");
  }
  const auto spelled = [&](uint32_t first, uint32_t last, Effort &effort) { return world.tree.spells(first, last, effort); };
  Effort work(200u << 20);
  try {
    parse_gbnf(grammar, [](const std::string &) { return -1; }, world.tree.size(), spelled, work);
  } catch (const TooMuchWork &) {
  } catch (const GrammarError &error) {
    // If no token can spell the characters of an enum, nothing of the root is left.
    const std::string why = error.what();
    if (why.find("spell") != std::string::npos) return 0;
    std::fprintf(stderr, "%s\n%s\n", error.what(), grammar.c_str());
    fuzz::promise(false, "the schema's grammar is one");
  }
  return 0;
}
