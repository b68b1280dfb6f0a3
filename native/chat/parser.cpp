// llama.cpp's parsers of answers (common_chat): text → content, reasoning and tool calls.
#include "addon.h"

#include "chat/chat_prompt.h"

#include <random>

namespace recua {

namespace {

std::string random_call_id() {
  static const char alphabet[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  static thread_local std::mt19937_64 random{std::random_device{}()};
  std::uniform_int_distribution<size_t> pick(0, sizeof alphabet - 2);
  std::string id = "call_";
  for (int i = 0; i < 24; i++) id += alphabet[pick(random)];
  return id;
}

} // namespace

Napi::Value Model::create_parser(const Napi::CallbackInfo &info) {
  open(info.Env());
  return info.Env().GetInstanceData<AddonData>()->parser.New({Options(info[0]).get("shape"), info[1]});
}

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
    if (!params.is_continuation) return;
    const Outcome begun = Outcome::of([&] { current = common_chat_peg_parse(answer->shape->parser, "", true, params); });
    if (begun.code != nullptr) throw CodedError("invalid_messages", "the last message cannot be continued (" + begun.message + ")");
  });
}

Napi::Value Parser::parse(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  const std::string text = info[0].As<Napi::String>().Utf8Value();
  const bool partial = info[1].ToBoolean();
  if (!answer->shape) throw make_error(env, "closed", "The parser is closed.");
  common_chat_msg next;
  const Outcome outcome = Outcome::of([&] { next = common_chat_peg_parse(answer->shape->parser, text, partial, params); }, "generation_failed");
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
