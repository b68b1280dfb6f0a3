// llama.cpp's chat templates (common_chat): messages → prompt text.
#include "addon.h"

#include "cancelled.h"
#include "chat/message_text.h"
#include "chat/turns.h"
#include "jinja_bounds.h"
#include "schema/schema.h"

#include <cstring>

namespace recua {

namespace {

constexpr size_t most_kwargs = 64;

common_chat_templates_inputs to_inputs(const ChatInput &input, Templates &templates) {
  common_chat_templates_inputs inputs;
  inputs.messages = common_chat_msgs_parse_oaicompat(common_json::parse(input.messages));
  for (const auto &message : inputs.messages) {
    for (const auto &call : message.tool_calls) schema::check_json(call.arguments, "invalid_messages", "the arguments of " + call.name);
  }
  if (!input.tools.empty()) inputs.tools = common_chat_tools_parse_oaicompat(common_json::parse(input.tools));
  inputs.tool_choice = common_chat_tool_choice_parse_oaicompat(input.tool_choice);
  inputs.json_schema = input.json_schema;
  inputs.grammar = input.grammar;
  inputs.add_generation_prompt = input.add_generation_prompt;
  const auto asked = input.kwargs.find("enable_thinking");
  // Like llama-server: a template whose thoughts cannot be told apart from its answer must be asked
  // for them by this name. Earlier thoughts are kept, so that the next turn continues from them.
  const bool by_name = asked != input.kwargs.end() && asked->second == "true";
  inputs.enable_thinking = input.enable_thinking && (by_name || templates.supports_thinking());
  inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  inputs.chat_template_kwargs = input.kwargs;
  inputs.chat_template_kwargs.emplace("preserve_reasoning", "true");
  inputs.parallel_tool_calls = input.parallel_given ? input.parallel_tool_calls : templates.parallel_tool_calls();
  const bool answers = !inputs.messages.empty() && inputs.messages.back().role == "assistant" && inputs.messages.back().tool_calls.empty();
  if (answers && input.continuation != "none" && inputs.messages.back().empty()) {
    // Nothing has begun. llama.cpp would leave out the generation prompt with the empty message.
    inputs.messages.pop_back();
    inputs.add_generation_prompt = true;
  } else if (answers && input.continuation != "none") {
    // A trailing assistant message is the beginning of the answer.
    const std::string &what = input.continuation;
    inputs.continue_final_message = what == "content" ? COMMON_CHAT_CONTINUATION_CONTENT
                                    : what == "reasoning_content" ? COMMON_CHAT_CONTINUATION_REASONING
                                                                  : COMMON_CHAT_CONTINUATION_AUTO;
    inputs.add_generation_prompt = false;
  }
  // The parser and llama.cpp take the beginning of the answer as it is.
  const bool continues = inputs.continue_final_message != COMMON_CHAT_CONTINUATION_NONE;
  templates.make_printable(inputs.messages, inputs.messages.size() - (continues ? 1 : 0));
  return inputs;
}

// llama.cpp parses all of these as JSON.
void check_texts(const ChatInput &input) {
  schema::check_json(input.tools, "invalid_schema", "the tools");
  schema::check_json(input.json_schema, "invalid_schema", "the schema");
  schema::check_json(input.messages, "invalid_messages", "the messages");
  for (const auto &[name, value] : input.kwargs) {
    schema::check_json(value, "invalid_value", "the chat template's arguments");
    if (name == "messages" || name == "tools") throw CodedError("invalid_value", "Expected chat template arguments other than messages and tools, which have their own request fields, got " + name + ".");
  }
  if (input.kwargs.size() > most_kwargs) throw CodedError("invalid_value", "Expected at most " + std::to_string(most_kwargs) + " chat template arguments, got " + std::to_string(input.kwargs.size()) + ".");
}

// A lower bound before the messages are rendered: megabytes of them take seconds. Templates may
// trim texts and omit parts of earlier answers.
size_t least_tokens(const LengthBound &bound, const ChatInput &input) {
  // A text never gets shorter as JSON.
  if (bound.tokens(bound.bytes(input.messages)) < input.context_size) return 0;
  size_t bytes = 0;
  for (const auto &message : common_chat_msgs_parse_oaicompat(common_json::parse(input.messages))) {
    if (message.role == "assistant") continue;
    bytes += bound.bytes(trimmed(message.content));
    for (const auto &part : message.content_parts) bytes += bound.bytes(trimmed(part.text));
  }
  return bound.tokens(bytes);
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

std::vector<std::string> thinking_tags(const common_chat_params &params) {
  std::vector<std::string> tags{params.thinking_start_tag};
  tags.insert(tags.end(), params.thinking_end_tags.begin(), params.thinking_end_tags.end());
  return tags;
}

} // namespace

ChatInput::ChatInput(const Options &options) {
  options.text("messages", messages);
  options.text("tools", tools);
  options.text("toolChoice", tool_choice);
  options.text("jsonSchema", json_schema);
  options.text("grammar", grammar);
  options.text("template", source);
  options.boolean("addGenerationPrompt", add_generation_prompt);
  options.text("continuation", continuation);
  options.boolean("enableThinking", enable_thinking);
  parallel_given = options.get("parallelToolCalls").IsBoolean();
  options.boolean("parallelToolCalls", parallel_tool_calls);
  options.boolean("remember", remember);
  options.number("contextSize", context_size);
  options.number("templateSeconds", template_seconds);
  const Napi::Value list = options.get("customInputs");
  if (list.IsArray()) {
    const auto array = list.As<Napi::Array>();
    for (uint32_t i = 0; i < array.Length(); i++) {
      const Options entry(array.Get(i));
      CustomInput custom;
      entry.number("tool", custom.tool);
      entry.text("root", custom.root);
      entry.text("plain", custom.plain);
      entry.text("json", custom.json);
      customs.push_back(std::move(custom));
    }
  }
  const Napi::Value map = options.get("templateKwargs");
  if (!map.IsObject()) return;
  const auto object = map.As<Napi::Object>();
  const auto names = object.GetPropertyNames();
  for (uint32_t i = 0; i < names.Length(); i++) {
    const std::string name = names.Get(i).ToString().Utf8Value();
    kwargs[name] = object.Get(name).ToString().Utf8Value();
  }
}

std::string ChatInput::shape_key() const {
  std::string key{static_cast<char>('0' + (parallel_tool_calls ? 1 : 0) + (parallel_given ? 2 : 0) + (add_generation_prompt ? 4 : 0) + (enable_thinking ? 8 : 0))};
  const auto add = [&key](const std::string &part) { key.append(std::to_string(part.size())).append(1, ':').append(part); };
  for (const std::string *part : {&tools, &tool_choice, &json_schema, &grammar}) add(*part);
  for (const auto &[name, value] : kwargs) {
    add(name);
    add(value);
  }
  for (const auto &custom : customs) {
    add(std::to_string(custom.tool) + ' ' + custom.root);
    add(custom.plain); // whose JSON rules are just another spelling
  }
  return key;
}

namespace {

constexpr const char *refused = "invalid_messages";

// llama.cpp's words for an error in a template, without the lines of source around it.
std::string in_one_line(const std::string &message) {
  const size_t shown = message.find("\n------------\nWhile executing ");
  const size_t error = message.rfind("\nError: ");
  if (shown == std::string::npos || error == std::string::npos || error < shown) return message;
  const std::string head = message.substr(0, shown);
  const size_t place = message.find(" at ", shown), end = message.find(" in source:", shown);
  const std::string where = place < end && end < error ? " (" + message.substr(place + 1, end - place - 1) + ")" : "";
  return head + message.substr(error + 8) + where;
}

void render_as(ModelState &model, Templates &templates, const ChatInput &input, const volatile int32_t *cancelled, ChatPrompt &out) {
  const auto inputs = to_inputs(input, templates);
  for (const auto &custom : input.customs) {
    if (custom.tool >= inputs.tools.size()) throw CodedError("invalid_argument", "Expected custom inputs for existing tools only.");
  }
  auto rendered = templates.apply(inputs, input.customs, input.shape_key(), input.remember);
  throw_if_cancelled(cancelled);
  const auto render_texts = [&](const MessageTexts &texts) {
    auto other = input;
    other.messages = texts.messages;
    other.tools = texts.tools;
    return templates.prompt(to_inputs(other, templates));
  };
  out.prompt = keep_text(model.special_tokens(), rendered.prompt, {input.messages, input.tools}, templates.source(), render_texts);
  out.shows_tools = templates.shows_tools();
  const auto &shape = *rendered.shape;
  const bool made = !shape.params.grammar.empty();
  out.answer = std::make_shared<AnswerShape>();
  out.answer->grammar_kind = made ? "tools" : "user"; // common_chat's grammars expect to be fed the generation prompt first
  out.answer->grammar = made ? shape.params.grammar : input.json_schema.empty() ? input.grammar : shape.schema_grammar;
  out.answer->continuation = inputs.continue_final_message != COMMON_CHAT_CONTINUATION_NONE;
  out.answer->shape = std::move(rendered.shape);
}

} // namespace

bool render_chat(ModelState &model, const ChatInput &input, const volatile int32_t *cancelled, ChatPrompt &out) {
  throw_if_cancelled(cancelled);
  if (input.context_size > 0) {
    schema::check_json(input.messages, "invalid_messages", "the messages");
    out.least_tokens = least_tokens(model.length_bound(), input);
    if (out.least_tokens >= input.context_size) return false;
  }
  const recua_jinja::Watch watch(cancelled, input.template_seconds);
  std::shared_ptr<Templates> templates;
  const Outcome compiled = Outcome::of([&] { templates = model.chat_templates(input.source); });
  if (compiled.code != nullptr) throw_if_cancelled(cancelled);
  if (compiled.code != nullptr) throw CodedError("chat_unsupported", "The chat template does not compile: " + in_one_line(compiled.message));
  check_texts(input);
  // From here on: a compiled template is kept for others.
  const schema::Watch conversions(cancelled);
  const Outcome taken = Outcome::of([&] { render_as(model, *templates, input, cancelled, out); }, refused);
  if (taken.code == nullptr) return true;
  // Only retry if the template itself refuses.
  if (std::strcmp(taken.code, refused) != 0) throw CodedError(taken.code, taken.message, taken.index);
  throw_if_cancelled(cancelled);
  if (watch.exceeded()) throw CodedError(refused, in_one_line(taken.message));
  auto other = input;
  std::string refused_form = common_json::parse(input.messages).dump();
  for (const bool users_join_results : {false, true}) {
    other.messages = usual_turns(input.messages, users_join_results);
    if (other.messages == refused_form) continue;
    if (Outcome::of([&] { render_as(model, *templates, other, cancelled, out); }).code == nullptr) return true;
    throw_if_cancelled(cancelled);
    refused_form = other.messages;
  }
  std::string reason;
  const auto refuses = [&](const std::string &messages, const std::string &tools) {
    other.messages = messages;
    other.tools = tools;
    other.continuation = "none";
    const Outcome printed = Outcome::of([&] { templates->prompt(to_inputs(other, *templates)); });
    if (printed.code != nullptr) reason = printed.message;
    return printed.code != nullptr;
  };
  const bool by_tools = !input.tools.empty() && !refuses(input.messages, "");
  const int32_t item = by_tools ? refused_item(input.tools, [&](const std::string &tools) { return refuses(input.messages, tools); })
                                : refused_item(input.messages, [&](const std::string &messages) { return refuses(messages, input.tools); });
  throw_if_cancelled(cancelled);
  // Then the last items were refused for want of time.
  if (watch.exceeded()) throw CodedError(refused, in_one_line(taken.message));
  if (by_tools && item >= 0) throw CodedError("invalid_schema", "The JSON schema is not one that the chat template can print (" + in_one_line(reason) + ").", item);
  throw CodedError(refused, in_one_line(taken.message), item);
}

HeldShape hold(Napi::Env env, const std::shared_ptr<AnswerShape> &answer) {
  using Held = std::shared_ptr<AnswerShape>;
  return HeldShape::New(env, new Held(answer), [](Napi::Env, Held *held) { delete held; });
}

Napi::Array to_js(Napi::Env env, const std::vector<schema::Loss> &losses) {
  auto array = Napi::Array::New(env, losses.size());
  for (size_t i = 0; i < losses.size(); i++) {
    auto entry = Napi::Object::New(env);
    entry.Set("pointer", losses[i].pointer);
    entry.Set("why", losses[i].why);
    entry.Set("tool", losses[i].tool);
    array.Set(static_cast<uint32_t>(i), entry);
  }
  return array;
}

Napi::Value Model::apply_chat_template(const Napi::CallbackInfo &info) {
  return promised(info.Env(), [&]() -> Napi::Value {
    const Options options(info[0]);
    const auto model = open(info.Env());
    auto input = std::make_shared<ChatInput>(options);
    const auto flag = Flag::of(options.get("cancelled"));
    return Task<ChatPrompt>::run(
        info.Env(), "invalid_messages", [=](ChatPrompt &out) { render_chat(*model, *input, flag->value(), out); },
        [](Napi::Env env, ChatPrompt &out) {
          const AnswerShape &answer = *out.answer;
          const auto &params = answer.shape->params;
          auto prompt = Napi::Object::New(env);
          prompt.Set("prompt", out.prompt.text);
          prompt.Set("literal", make_array(env, out.prompt.literal));
          prompt.Set("generationPrompt", params.generation_prompt);
          prompt.Set("unenforced", to_js(env, answer.shape->losses));
          prompt.Set("continuation", answer.continuation);
          prompt.Set("grammar", answer.grammar);
          prompt.Set("grammarKind", answer.grammar_kind);
          prompt.Set("grammarLazy", params.grammar_lazy);
          prompt.Set("triggers", triggers_of(params));
          prompt.Set("preserved", make_texts(env, params.preserved_tokens));
          prompt.Set("stops", make_texts(env, params.additional_stops));
          prompt.Set("thinking", make_texts(env, thinking_tags(params)));
          prompt.Set("shape", hold(env, out.answer));
          return prompt;
        });
  });
}

} // namespace recua
