// llama.cpp's chat templates and output parsers (common_chat): messages → prompt text, answer text
// → parts.
#include "addon.h"

#include "cancelled.h"
#include "chat/message_text.h"
#include "chat/turns.h"
#include "jinja_bounds.h"
#include "schema/schema.h"

#include <cstring>
#include <random>

namespace recua {

namespace {

constexpr size_t most_kwargs = 64;

common_chat_templates_inputs to_inputs(const ChatInput &input, const Templates &templates) {
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
  if (answers && input.continuation != "none") {
    // A trailing assistant message is the beginning of the answer.
    const std::string &what = input.continuation;
    inputs.continue_final_message = what == "content" ? COMMON_CHAT_CONTINUATION_CONTENT
                                    : what == "reasoning_content" ? COMMON_CHAT_CONTINUATION_REASONING
                                                                  : COMMON_CHAT_CONTINUATION_AUTO;
    inputs.add_generation_prompt = false;
  }
  return inputs;
}

// The parser recurses once per open bracket of JSON in the answer. The caller shows deeper text
// unparsed.
void check_depth(const std::string &text) {
  constexpr int most = 500;
  int depth = 0;
  for (const char c : text) {
    if ((c == '[' || c == '{') && ++depth > most) {
      throw CodedError("generation_failed", "more than " + std::to_string(most) + " brackets are open at once");
    }
    if ((c == ']' || c == '}') && depth > 0) depth--;
  }
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

std::string random_call_id() {
  static const char alphabet[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  static thread_local std::mt19937_64 random{std::random_device{}()};
  std::uniform_int_distribution<size_t> pick(0, sizeof alphabet - 2);
  std::string id = "call_";
  for (int i = 0; i < 24; i++) id += alphabet[pick(random)];
  return id;
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
  const Outcome taken = Outcome::of([&] { render_as(model, *templates, input, cancelled, out); }, refused);
  if (taken.code == nullptr) return true;
  // Only retry if the template itself refuses.
  if (std::strcmp(taken.code, refused) != 0) throw CodedError(taken.code, taken.message, taken.index);
  throw_if_cancelled(cancelled);
  if (watch.exceeded()) throw CodedError(refused, in_one_line(taken.message));
  auto other = input;
  other.messages = usual_turns(input.messages);
  const bool same = other.messages == common_json::parse(input.messages).dump();
  if (!same && Outcome::of([&] { render_as(model, *templates, other, cancelled, out); }).code == nullptr) return true;
  throw_if_cancelled(cancelled);
  const int32_t turn = refused_turn(input.messages, [&](const std::string &messages) {
    other.messages = messages;
    other.continuation = "none";
    return Outcome::of([&] { templates->prompt(to_inputs(other, *templates)); }).code != nullptr;
  });
  throw_if_cancelled(cancelled);
  // Then the last turns were refused for want of time.
  if (watch.exceeded()) throw CodedError(refused, in_one_line(taken.message));
  throw CodedError(refused, in_one_line(taken.message), turn);
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

Napi::Value Model::create_parser(const Napi::CallbackInfo &info) {
  open(info.Env());
  return info.Env().GetInstanceData<AddonData>()->parser.New({Options(info[0]).get("shape"), info[1]});
}

// --- Parser

Napi::Function Parser::define(Napi::Env env) {
  return DefineClass(env, "Parser", {InstanceMethod("parse", &Parser::parse), InstanceMethod("message", &Parser::message), InstanceMethod("close", &Parser::close)});
}

Parser::Parser(const Napi::CallbackInfo &info) : Napi::ObjectWrap<Parser>(info) {
  guarded(info.Env(), [&] {
    if (!info[0].IsExternal()) throw CodedError("invalid_argument", "Expected the result of applyChatTemplate() for createParser().");
    answer = *info[0].As<HeldShape>().Data();
    if (!answer->shape) throw CodedError("invalid_argument", "The parser of this prompt is already closed.");
    params.generation_prompt = answer->shape->params.generation_prompt;
    params.is_continuation = answer->continuation;
    params.format = answer->shape->params.format;
    params.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
    params.parse_tool_calls = info[1].ToBoolean();
    // The beginning from the caller's last message is not part of the answer.
    if (params.is_continuation) current = common_chat_peg_parse(answer->shape->parser, "", true, params);
  });
}

Napi::Value Parser::parse(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  const std::string text = info[0].As<Napi::String>().Utf8Value();
  const bool partial = info[1].ToBoolean();
  if (!answer->shape) throw make_error(env, "closed", "The parser is closed.");
  common_chat_msg next;
  const Outcome outcome = Outcome::of(
      [&] {
        check_depth(text);
        next = common_chat_peg_parse(answer->shape->parser, text, partial, params);
      },
      "generation_failed");
  if (outcome.code != nullptr) throw make_error(env, outcome.code, outcome.message);
  auto delta = Napi::Object::New(env);
  if (next.empty()) return delta;
  next.set_tool_call_ids(call_ids, random_call_id);
  std::vector<common_chat_msg_diff> diffs;
  const Outcome compared = Outcome::of([&] { diffs = common_chat_msg_diff::compute_diffs(current, next); }, "generation_failed");
  if (compared.code != nullptr) throw make_error(env, compared.code, compared.message);
  current = std::move(next);

  std::string content;
  std::string reasoning;
  auto calls = Napi::Array::New(env);
  for (const auto &diff : diffs) {
    content += diff.content_delta;
    reasoning += diff.reasoning_content_delta;
    if (diff.tool_call_index == std::string::npos) continue;
    const size_t index = diff.tool_call_index;
    if (call_announced.size() <= index) call_announced.resize(index + 1, false);
    auto call = Napi::Object::New(env);
    call.Set("index", static_cast<double>(index));
    if (!call_announced[index]) {
      const auto &full = current.tool_calls[index];
      if (full.name.empty()) continue;
      call.Set("id", full.id);
      call.Set("name", full.name);
      call.Set("arguments", full.arguments);
      call_announced[index] = true;
    } else {
      call.Set("arguments", diff.tool_call_delta.arguments);
    }
    calls.Set(calls.Length(), call);
  }
  if (!content.empty()) delta.Set("content", content);
  if (!reasoning.empty()) delta.Set("reasoning", reasoning);
  if (calls.Length() > 0) delta.Set("toolCalls", calls);
  return delta;
}

Napi::Value Parser::message(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  auto message = Napi::Object::New(env);
  message.Set("content", current.content);
  message.Set("reasoning", current.reasoning_content);
  auto calls = Napi::Array::New(env);
  for (const auto &call : current.tool_calls) {
    auto entry = Napi::Object::New(env);
    entry.Set("id", call.id);
    entry.Set("name", call.name);
    entry.Set("arguments", call.arguments);
    calls.Set(calls.Length(), entry);
  }
  message.Set("toolCalls", calls);
  return message;
}

Napi::Value Parser::close(const Napi::CallbackInfo &info) {
  *answer = {};
  current = {};
  return info.Env().Undefined();
}

} // namespace recua
