// A compiled chat template that remembers. llama.cpp analyzes the template anew for each request
// and makes the parser and the grammar of its tools or schema from nothing. All that depends on the
// request's shape (tools, schema, flags) and not on its messages is kept here; only the prompt is
// rendered each time. Used on pool threads.
#pragma once

#include "chat.h"
#include "chat/custom_input.h"
#include "schema/schema.h"

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace recua {

// What requests of one shape share. Never changed once made.
struct ChatShape {
  common_chat_params params; // without the prompt and the parser's text
  common_peg_arena parser;
  std::string schema_grammar; // for a schema that the template's own grammar leaves out
  std::vector<int32_t> preserved_ids;
  std::vector<schema::Loss> losses; // of the schema and of the tools
  size_t bytes = 0; // roughly
};

struct RenderedChat {
  std::string prompt;
  std::shared_ptr<const ChatShape> shape;
};

class Templates {
public:
  // '' is the model file's own. Throws where it does not compile.
  Templates(const llama_model *model, const std::string &source);

  // `shape_key` is all of the request that `inputs` was made of, except the messages. `remember`
  // off asks llama.cpp for everything.
  RenderedChat apply(const common_chat_templates_inputs &inputs, const std::vector<CustomInput> &customs,
                     const std::string &shape_key, bool remember);
  // The prompt alone, as apply() makes it.
  std::string prompt(const common_chat_templates_inputs &inputs) const;
  std::string source() const;
  bool parallel_tool_calls() const { return parallel; }
  bool supports_thinking() const { return thinks; }

private:
  // How the prompt alone is had from llama.cpp.
  enum class Way { generic, special, special_with_schema };
  // Null: the prompt of such requests can't be had alone.
  using Known = std::shared_ptr<const ChatShape>;

  Way way_of(const std::string &source) const;
  common_chat_params render_only(const common_chat_templates_inputs &inputs) const;
  RenderedChat make(const common_chat_templates_inputs &inputs, const std::vector<CustomInput> &customs) const;
  std::vector<schema::Loss> check_schemas(const common_chat_templates_inputs &inputs) const;
  bool writes_free_texts(const common_chat_templates_inputs &inputs) const;
  bool has_place_for_schema(const common_chat_templates_inputs &inputs) const;
  void enforce_schema(const common_chat_templates_inputs &inputs, ChatShape &shape) const;
  bool find(const std::string &key, Known &known);
  void keep(const std::string &key, const Known &known, size_t bytes);

  const llama_vocab *vocab;
  std::shared_ptr<common_chat_templates> compiled;
  bool parallel = false;
  bool thinks = true;
  bool has_tool_use = false;
  Way way = Way::generic;
  mutable std::atomic<int> free_texts{-1}; // whether arguments that are texts are; -1 is not known yet
  Way tool_use_way = Way::generic; // of the template for requests with tools, where there is one of its own

  static constexpr size_t most = 64;
  static constexpr size_t most_bytes = 32u << 20;
  struct Entry {
    std::string key;
    Known known;
    size_t bytes;
  };
  std::mutex mutex; // guards what follows
  std::list<Entry> entries; // the last used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key;
  size_t bytes = 0;
};

} // namespace recua
