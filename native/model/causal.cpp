// Whether each token of a model sees only the tokens before it.
#include "addon.h"

#include <set>

namespace recua {

bool is_causal(const llama_model *model) {
  // Their graphs attend in both directions, and llama_model::create_memory() makes no KV cache for
  // most of them, whatever the file's metadata says.
  static const std::set<std::string> encoders = {
      "bert",         "dream",          "eurobert",  "gemma-embedding", "jina-bert-v2",
      "jina-bert-v3", "llada",          "llada-moe", "modern-bert",     "neo-bert",
      "nomic-bert",   "nomic-bert-moe", "rnd1",      "t5encoder",       "wavtokenizer-dec"};
  const std::string architecture = metadata_value(model, "general.architecture");
  if (encoders.count(architecture) > 0) return false;
  return metadata_value(model, architecture + ".attention.causal") != "false";
}

} // namespace recua
