// Whether each token of a model sees only the tokens before it.
#include "addon.h"

#include <set>

namespace recua {

namespace {

// A value of the file's metadata; longer ones than any of those below are cut.
std::string short_value(const llama_model *model, const std::string &key) {
  char value[128];
  return llama_model_meta_val_str(model, key.c_str(), value, sizeof value) < 0 ? "" : value;
}

} // namespace

bool is_causal(const llama_model *model) {
  // Their graphs attend in both directions, and llama_model::create_memory() makes no KV cache for
  // most of them, whatever the file's metadata says.
  static const std::set<std::string> encoders = {
      "bert",         "dream",          "eurobert",  "gemma-embedding", "jina-bert-v2",
      "jina-bert-v3", "llada",          "llada-moe", "modern-bert",     "neo-bert",
      "nomic-bert",   "nomic-bert-moe", "rnd1",      "t5encoder",       "wavtokenizer-dec"};
  const std::string architecture = short_value(model, "general.architecture");
  if (encoders.count(architecture) > 0) return false;
  return short_value(model, architecture + ".attention.causal") != "false";
}

} // namespace recua
