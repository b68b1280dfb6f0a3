// Which parts of llama.cpp's result depend on the messages was read from v0.5.0 (common/chat.cpp, chat-auto-parser-generator.cpp,
// parsers/): the prompt, and the generation prompt, of which parser and grammar are made. So the latter is part of the key. Where an
// answer is continued its beginning goes into the parser, and nothing is kept. test/native/templates.test.ts compares both ways.
#include "addon.h"

#include "chat-auto-parser.h"

#include <algorithm>

namespace recua {

namespace {

void check_schema(const std::string &schema) {
  const Outcome outcome = Outcome::of([&] { schema_grammar(schema); });
  if (outcome.code != nullptr) throw CodedError("invalid_schema", "The JSON schema cannot be enforced: " + outcome.message);
}

std::string triggers_of(const common_chat_params &params) {
  auto triggers = common_json::array();
  for (const auto &trigger : params.grammar_triggers) {
    common_json entry = {{"type", static_cast<int>(trigger.type)}, {"value", trigger.value}};
    if (trigger.type == COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN) entry["token"] = static_cast<int>(trigger.token);
    triggers.push_back(entry);
  }
  return triggers.dump();
}

} // namespace

Templates::Templates(const llama_model *model, const std::string &source)
    : vocab(llama_model_get_vocab(model)),
      compiled(common_chat_templates_init(model, source).release(), common_chat_templates_deleter()) {
  auto caps = common_chat_templates_get_caps(compiled.get());
  parallel = caps["supports_parallel_tool_calls"];
  way = way_of(common_chat_templates_source(compiled.get()));
  const std::string tool_use = common_chat_templates_source(compiled.get(), "tool_use");
  has_tool_use = !tool_use.empty();
  if (has_tool_use) tool_use_way = way_of(tool_use);
}

// llama.cpp knows some templates by what is in them, and changes the messages for some of these.
Templates::Way Templates::way_of(const std::string &source) const {
  bool special = true;
  try {
    const common_chat_template parsed(source, "", "");
    autoparser::generation_params params;
    params.messages = common_json::array();
    common_json message = {{"role", "user"}, {"content", "?"}};
    params.messages.push_back(message);
    special = common_chat_try_specialized_template(parsed, parsed.source(), params).has_value();
  } catch (const std::exception &) {
    // It was tried, so it is one of them: others are not rendered here.
  }
  if (!special) return Way::generic;
  return source.find("response_format") == std::string::npos ? Way::special : Way::special_with_schema;
}

// The prompt and the generation prompt, as apply() would make them.
common_chat_params Templates::render_only(const common_chat_templates_inputs &inputs) const {
  auto cheap = inputs;
  const Way chosen = has_tool_use && !inputs.tools.empty() ? tool_use_way : way;
  if (chosen == Way::generic) {
    cheap.force_pure_content = true; // no analysis
  } else {
    cheap.tool_choice = COMMON_CHAT_TOOL_CHOICE_NONE; // tools are in the prompt all the same, but in no grammar
    cheap.grammar.clear();
    if (chosen == Way::special) cheap.json_schema.clear();
  }
  return common_chat_templates_apply(compiled.get(), cheap);
}

RenderedChat Templates::make(const common_chat_templates_inputs &inputs) const {
  auto shape = std::make_shared<ChatShape>();
  const bool by_schema = !inputs.json_schema.empty();
  try {
    shape->params = common_chat_templates_apply(compiled.get(), inputs);
  } catch (const std::exception &) {
    if (by_schema) check_schema(inputs.json_schema); // the more precise error, if it is that
    throw;
  }
  // Some templates' parsers have no place for a schema.
  if (by_schema && (shape->params.grammar.empty() || !inputs.tools.empty())) check_schema(inputs.json_schema);
  std::string prompt = std::move(shape->params.prompt);
  shape->params.prompt.clear();
  if (!shape->params.parser.empty()) shape->parser.load(shape->params.parser);
  shape->bytes = shape->params.grammar.size() + 8 * shape->params.parser.size() + 4096; // in memory the parser is some times its text
  shape->params.parser = {};
  shape->triggers = triggers_of(shape->params);
  for (const auto &text : shape->params.preserved_tokens) {
    const auto ids = common_tokenize(vocab, text, false, true);
    if (ids.size() == 1) shape->preserved_ids.push_back(ids[0]);
  }
  return {std::move(prompt), shape};
}

RenderedChat Templates::apply(const common_chat_templates_inputs &inputs, const std::string &shape_key, bool remember) {
  if (!remember || inputs.continue_final_message != COMMON_CHAT_CONTINUATION_NONE) return make(inputs);
  common_chat_params rendered;
  try {
    rendered = render_only(inputs);
  } catch (const std::exception &) {
    return make(inputs); // with the whole way's error
  }
  const std::string key = std::to_string(rendered.generation_prompt.size()) + ':' + rendered.generation_prompt + shape_key;
  Known known;
  const bool found = find(key, known);
  if (known) return {std::move(rendered.prompt), known};
  auto made = make(inputs);
  if (found) return made;
  const bool same = made.prompt == rendered.prompt && made.shape->params.generation_prompt == rendered.generation_prompt;
  keep(key, same ? made.shape : nullptr, made.shape->bytes + 2 * key.size());
  return made;
}

bool Templates::find(const std::string &key, Known &known) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = by_key.find(key);
  if (found == by_key.end()) return false;
  entries.splice(entries.begin(), entries, found->second);
  known = found->second->known;
  return true;
}

void Templates::keep(const std::string &key, const Known &known, size_t size) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (size > most_bytes || by_key.count(key) > 0) return;
  entries.push_front({key, known, size});
  by_key[key] = entries.begin();
  bytes += size;
  while (entries.size() > most || bytes > most_bytes) {
    bytes -= entries.back().bytes;
    by_key.erase(entries.back().key);
    entries.pop_back();
  }
}

} // namespace recua
