// A compiled chat template with a cache. For each request llama.cpp analyzes the template again and
// builds the parser and the grammar of the request's tools or schema from scratch. This class keeps
// everything that depends on the request's shape (tools, schema, flags) and not on its messages;
// only the prompt is rendered each time. Used on pool threads.
#pragma once

#include "chat.h"
#include "chat/custom_input.h"
#include "chat/text_forms.h"
#include "schema/schema.h"

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace recua {

// Shared by requests of one shape. Immutable.
struct ChatShape {
  common_chat_params params; // without the prompt and the parser's text
  common_peg_arena parser;
  std::string schema_grammar; // for a schema that the template's own grammar omits
  std::vector<int32_t> preserved_ids;
  std::vector<schema::Loss> losses; // in the schema and the tools
  size_t bytes = 0; // estimate
};

struct RenderedChat {
  std::string prompt;
  std::shared_ptr<const ChatShape> shape;
};

class Templates {
public:
  // '' is the model file's own. Throws if it does not compile.
  Templates(const llama_model *model, const std::string &source);

  // `shape_key` covers everything in the request that `inputs` was made of, except the messages.
  // With `remember` off, llama.cpp does all the work.
  RenderedChat apply(const common_chat_templates_inputs &inputs, const std::vector<CustomInput> &customs,
                     const std::string &shape_key, bool remember);
  // The prompt alone, as apply() makes it.
  std::string prompt(const common_chat_templates_inputs &inputs) const;
  std::string source() const;
  bool parallel_tool_calls() const { return parallel; }
  bool supports_thinking() const { return thinks; }
  // Gives the first `count` messages a form of which the template prints every text.
  void make_printable(std::vector<common_chat_msg> &messages, size_t count);
  // Whether prompts tell the model of tools.
  bool shows_tools() const { return tools; }

private:
  // How to get just the prompt from llama.cpp.
  enum class Way { generic, special, special_with_schema };
  // Null: just the prompt is not available for such requests.
  using Known = std::shared_ptr<const ChatShape>;

  Way way_of(const std::string &source) const;
  common_chat_params render_only(const common_chat_templates_inputs &inputs) const;
  RenderedChat make(const common_chat_templates_inputs &inputs, const std::vector<CustomInput> &customs) const;
  std::vector<schema::Loss> check_schemas(const common_chat_templates_inputs &inputs, const std::vector<CustomInput> &customs) const;
  schema::Freedom freedom_of_calls(const common_chat_templates_inputs &inputs) const;
  bool has_place_for_schema(const common_chat_templates_inputs &inputs) const;
  void enforce_schema(const common_chat_templates_inputs &inputs, ChatShape &shape) const;
  bool find(const std::string &key, Known &known);
  void keep(const std::string &key, const Known &known, size_t bytes);

  const llama_vocab *vocab;
  std::shared_ptr<common_chat_templates> compiled;
  bool parallel = false;
  bool thinks = true;
  bool tools = true;
  TextForms forms;
  bool has_tool_use = false;
  Way way = Way::generic;
  mutable std::atomic<int> freedom{-1}; // of calls, a bit for each member; -1: not known yet
  Way tool_use_way = Way::generic; // for the template for requests with tools, if there is a separate one

  static constexpr size_t most = 64;
  static constexpr size_t most_bytes = 32u << 20;
  struct Entry {
    std::string key;
    Known known;
    size_t bytes;
  };
  std::mutex mutex; // guards the members below
  std::list<Entry> entries; // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key;
  size_t bytes = 0;
};

} // namespace recua
