// Which parts of the result depend on the messages follows llama.cpp v0.5.0 (common/chat.cpp,
// chat-auto-parser-generator.cpp, parsers/): the prompt, and the generation prompt, which parser
// and grammar are built from. So the generation prompt is part of the key. If an answer is
// continued, its beginning goes into the parser, and nothing is kept.
// test/native/chat/templates.test.ts compares both ways.
#include "chat/templates.h"

#include "chat/forced_call.h"
#include "grammar/piece_tree.h"

#include "chat-auto-parser.h"
#include "jinja_bounds.h"

#include <algorithm>

namespace recua {

namespace {

constexpr size_t large_shape = 32u << 10;
constexpr size_t longest_mark = 4096; // in which control tokens are looked for

// One budget for all schemas that llama.cpp converts for one prompt.
common_chat_params apply_templates(const common_chat_templates *templates, const common_chat_templates_inputs &inputs) {
  const schema::Session session;
  return common_chat_templates_apply(templates, inputs);
}

// Whether the parser understands an answer that is JSON from its first character as just that.
bool takes_plain_json(const ChatShape &shape) {
  common_chat_parser_params params;
  params.generation_prompt = shape.params.generation_prompt;
  params.format = shape.params.format;
  params.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  const std::string text = "{}";
  try {
    return common_chat_peg_parse(shape.parser, text, false, params).content == text;
  } catch (const std::exception &) {
    return false;
  }
}

} // namespace

Templates::Templates(const llama_model *model, const std::string &source)
    : vocab(llama_model_get_vocab(model)) {
  const recua_jinja::Session bounds;
  compiled = std::shared_ptr<common_chat_templates>(common_chat_templates_init(model, source).release(), common_chat_templates_deleter());
  auto caps = common_chat_templates_get_caps(compiled.get());
  parallel = caps["supports_parallel_tool_calls"];
  try {
    thinks = common_chat_templates_support_enable_thinking(compiled.get());
  } catch (const std::exception &) {
    // The template refuses a plain question; requests will show whether it works.
  }
  way = way_of(common_chat_templates_source(compiled.get()));
  const std::string tool_use = common_chat_templates_source(compiled.get(), "tool_use");
  has_tool_use = !tool_use.empty();
  if (has_tool_use) tool_use_way = way_of(tool_use);
  tools = has_tool_use || way != Way::generic || caps["supports_tools"];
  recua_jinja::complete(); // these answers are kept for other requests
}

// llama.cpp recognizes some templates by their text, and changes the messages for some of them.
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
    // An exception means that it was recognized: other templates are not rendered here.
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
    cheap.tool_choice = COMMON_CHAT_TOOL_CHOICE_NONE; // tools still appear in the prompt, but in no grammar
    cheap.grammar.clear();
    if (chosen == Way::special) cheap.json_schema.clear();
  }
  return apply_templates(compiled.get(), cheap);
}

std::string Templates::prompt(const common_chat_templates_inputs &inputs) const {
  const recua_jinja::Session bounds;
  const bool continues = inputs.continue_final_message != COMMON_CHAT_CONTINUATION_NONE;
  return (continues ? common_chat_templates_apply(compiled.get(), inputs) : render_only(inputs)).prompt;
}

void Templates::make_printable(std::vector<common_chat_msg> &messages, size_t count) {
  forms.make_printable(messages, count, [this](const common_chat_templates_inputs &inputs) { return prompt(inputs); });
}

std::string Templates::source() const {
  return common_chat_templates_source(compiled.get()) + common_chat_templates_source(compiled.get(), "tool_use");
}

// Some of llama.cpp's formats silently omit a schema from their grammar, more of them if there are
// tools.
void Templates::enforce_schema(const common_chat_templates_inputs &inputs, ChatShape &shape) const {
  auto &params = shape.params;
  if (inputs.tools.empty() && !params.grammar.empty()) return;
  std::string grammar = schema::refusing(-1, [&] { return schema::convert(inputs.json_schema, nullptr); });
  if (!params.grammar.empty() && has_place_for_schema(inputs)) return;
  if (!inputs.tools.empty() && inputs.tool_choice != COMMON_CHAT_TOOL_CHOICE_NONE) {
    throw CodedError("invalid_schema", "The JSON schema cannot be enforced: this chat template has no place for one beside tools. "
                                       "Leave out the schema or the tools, or send tool_choice \"none\".");
  }
  if (!takes_plain_json(shape)) {
    throw CodedError("invalid_schema", "The JSON schema cannot be enforced: answers of this chat template do not begin with JSON. "
                                       "If they begin with a thinking block, turn thinking off; otherwise leave out the schema.");
  }
  shape.schema_grammar = std::move(grammar);
  params.grammar.clear();
  params.grammar_lazy = false;
  params.grammar_triggers.clear();
}

// Checks the schemas that llama.cpp will convert one by one, so that an error names the schema and
// the losses are known.
std::vector<schema::Loss> Templates::check_schemas(const common_chat_templates_inputs &inputs, const std::vector<CustomInput> &customs) const {
  std::vector<schema::Loss> all;
  const schema::Session session;
  const auto check = [&](const std::string &text, int32_t tool, const schema::Freedom &free) {
    std::vector<schema::Loss> losses;
    schema::refusing(tool, [&] { schema::check(common_json::parse(text), free, losses); });
    for (auto &loss : losses) {
      loss.tool = tool;
      all.push_back(std::move(loss));
    }
  };
  if (!inputs.json_schema.empty()) check(inputs.json_schema, -1, {});
  if (inputs.tools.empty() || inputs.tool_choice == COMMON_CHAT_TOOL_CHOICE_NONE) return all;
  const schema::Freedom free = freedom_of_calls(inputs);
  for (size_t i = 0; i < inputs.tools.size(); i++) {
    const std::string &parameters = inputs.tools[i].parameters;
    // What a custom tool's input follows is not in its parameters.
    const bool custom = std::any_of(customs.begin(), customs.end(), [i](const CustomInput &one) { return one.tool == i; });
    if (!parameters.empty() && parameters != "null" && parameters != "{}") check(parameters, static_cast<int32_t>(i), custom ? schema::Freedom{} : free);
  }
  return all;
}

// Formats that mark each argument by a tag let the model write any text there; some let it write
// anything. Shown by what does not change the grammar.
schema::Freedom Templates::freedom_of_calls(const common_chat_templates_inputs &inputs) const {
  const int known = freedom.load();
  if (known >= 0) return {(known & 1) != 0, (known & 2) != 0, (known & 4) != 0, (known & 8) != 0};
  const std::string mark = "wxqzkv";
  auto probe = inputs;
  probe.json_schema.clear();
  probe.grammar.clear();
  probe.tool_choice = COMMON_CHAT_TOOL_CHOICE_REQUIRED;
  const auto grammar_of = [&](const std::string &name, const std::string &type, const std::string &required) {
    probe.tools = {{"probe", "", R"({"type":"object","properties":{"text":{"enum":[")" + mark + R"("]},")" + name + R"(":{"type":")" + type + R"("}},"required":[)" + required + "]}"}};
    return apply_templates(compiled.get(), probe).grammar;
  };
  try {
    const std::string grammar = grammar_of("count", "integer", R"("text")");
    if (grammar.empty()) return {};
    schema::Freedom found;
    found.texts = grammar.find(mark) == std::string::npos;
    found.values = found.texts && grammar_of("count", "boolean", R"("text")") == grammar;
    found.names = found.values && grammar_of("number", "integer", R"("text")") == grammar;
    found.fewer = grammar_of("count", "integer", "") == grammar;
    freedom = found.texts | found.values << 1 | found.names << 2 | found.fewer << 3;
    return found;
  } catch (const std::exception &) {
    return {}; // the request itself will show
  }
}

bool Templates::has_place_for_schema(const common_chat_templates_inputs &inputs) const {
  const std::string mark = "wxqzkv";
  auto probe = inputs;
  probe.json_schema = "{\"enum\": [\"" + mark + "\"]}";
  const auto params = apply_templates(compiled.get(), probe);
  return !params.grammar_lazy && params.grammar.find(mark) != std::string::npos;
}

// Formats that begin each call by its own mark accept several calls, whatever the request says.
// This makes the repetition in the rule of all calls occur once.
static void keep_to_one_call(std::string &grammar) {
  const std::pair<std::string, std::string> rules[] = {
      {"tool-calls", "(tool-call"}, {"tools", "(tool-"}, {"kimi-k3-tool-call", ""}};
  for (const auto &[rule, first] : rules) {
    // Next to a tool named "calls", the rule has another name (cmake/peg-parser.cmake).
    for (std::string name = rule;; name += "-again") {
      const std::string head = name + " ::= ";
      const size_t line = grammar.compare(0, head.size(), head) == 0 ? 0 : grammar.find("\n" + head);
      if (line == std::string::npos) break;
      const size_t at = grammar.find(" ::= ", line) + 5;
      const size_t end = std::min(grammar.find('\n', at), grammar.size());
      const size_t repeated = grammar.find(")+", at);
      if (grammar.compare(at, first.size(), first) == 0 && repeated < end) grammar.erase(repeated + 1, 1);
    }
  }
}

// Allows nothing but a call.
static void force(const common_chat_templates_inputs &inputs, ChatShape &shape) {
  const bool continues = inputs.continue_final_message != COMMON_CHAT_CONTINUATION_NONE;
  const std::string begun = continues ? inputs.messages.back().render_content() : "";
  if (!shape.params.grammar.empty() && force_call(shape.parser, begun, shape.params.grammar)) return;
  throw CodedError("chat_unsupported", "A tool call cannot be required: this chat template has no form for calls. Leave out tool_choice.");
}

RenderedChat Templates::make(const common_chat_templates_inputs &inputs, const std::vector<CustomInput> &customs) const {
  auto shape = std::make_shared<ChatShape>();
  shape->losses = check_schemas(inputs, customs);
  auto marked = inputs;
  for (const auto &custom : customs) marked.tools.at(custom.tool).parameters = marked_parameters(custom);
  const bool forced = !inputs.tools.empty() && inputs.tool_choice == COMMON_CHAT_TOOL_CHOICE_REQUIRED;
  const bool unasked = forced && !inputs.json_schema.empty(); // a call has no place for the answer's own schema
  if (unasked) marked.json_schema.clear();
  shape->params = apply_templates(compiled.get(), marked);
  std::string prompt = customs.empty() && !unasked ? std::move(shape->params.prompt) : this->prompt(inputs);
  shape->params.prompt.clear();
  if (!shape->params.parser.empty()) shape->parser.load(shape->params.parser);
  if (forced) force(inputs, *shape);
  if (!inputs.parallel_tool_calls) keep_to_one_call(shape->params.grammar);
  for (const auto &custom : customs) {
    if (inputs.tool_choice == COMMON_CHAT_TOOL_CHOICE_NONE) break;
    if (shape->params.grammar.empty()) {
      // In free text the start of a call could not be recognized.
      shape->losses.push_back({"/properties/input", "this chat template puts no mark before a call; tool_choice \"required\" enforces it", static_cast<int32_t>(custom.tool)});
      continue;
    }
    if (enforce(custom, inputs.tools[custom.tool].name, shape->parser, shape->params.grammar)) continue;
    shape->losses.push_back({"/properties/input", "this chat template has no place for its format", static_cast<int32_t>(custom.tool)});
  }
  if (!inputs.json_schema.empty() && !forced) enforce_schema(inputs, *shape);
  shape->bytes = shape->params.grammar.size() + shape->schema_grammar.size() + 8 * shape->params.parser.size() + 4096; // in memory the parser is a few times as large as its text
  shape->params.parser = {};
  for (const auto &text : shape->params.preserved_tokens) {
    if (text.size() > longest_mark) continue;
    const auto ids = common_tokenize(vocab, text, false, true);
    // Some texts are a control token with what comes before or after it.
    for (const llama_token id : ids) {
      if (ids.size() == 1 || token_bytes(vocab, id, false).empty()) shape->preserved_ids.push_back(id);
    }
  }
  return {std::move(prompt), shape};
}

RenderedChat Templates::apply(const common_chat_templates_inputs &inputs, const std::vector<CustomInput> &customs,
                              const std::string &shape_key, bool remember) {
  const recua_jinja::Session bounds; // shared by all work for one prompt
  if (!remember || inputs.continue_final_message != COMMON_CHAT_CONTINUATION_NONE) return make(inputs, customs);
  // Templates take long to write large tools into the prompt, so refuse invalid schemas first.
  if (shape_key.size() > large_shape) check_schemas(inputs, customs);
  common_chat_params rendered;
  try {
    rendered = render_only(inputs);
  } catch (const std::exception &) {
    return make(inputs, customs); // throws the error of the full rendering
  }
  const std::string key = std::to_string(rendered.generation_prompt.size()) + ':' + rendered.generation_prompt + shape_key;
  Known known;
  const bool found = find(key, known);
  if (known) return {std::move(rendered.prompt), known};
  auto made = make(inputs, customs);
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
