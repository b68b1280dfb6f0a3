// A chat request as JavaScript gives it, and what its template makes of it: the prompt, and what
// constrains and parses the answer, which stays in C++. chat.cpp renders; prepare.cpp goes on to
// tokens and a sampler.
#pragma once

#include "js.h"

#include "chat/message_text.h"
#include "chat/templates.h"

#include <map>
#include <memory>
#include <string>

namespace recua {

struct ModelState;

// ChatInput of src/addon/chat-types.ts.
struct ChatInput {
  std::string messages, tools, tool_choice = "auto", json_schema, grammar, source;
  bool parallel_tool_calls = false;
  bool parallel_given = false;
  bool add_generation_prompt = true;
  bool enable_thinking = true;
  // Of the assistant's last message: auto, content or reasoning_content is gone on with, none; ''
  // is auto where the answer would begin there.
  std::string continuation;
  bool remember = true;
  std::map<std::string, std::string> kwargs;
  std::vector<CustomInput> customs; // of some of the tools, in order
  size_t context_size = 0; // messages of which no prompt can be as short as this are not rendered; 0 renders all

  explicit ChatInput(const Options &options); // JS thread
  // All that the result depends on, except the template and the messages.
  std::string shape_key() const;
};

// How the answer is constrained and parsed. V8 sees only a few bytes of it and collects late, so a
// parser's close() empties `shape`.
struct AnswerShape {
  std::shared_ptr<const ChatShape> shape;
  std::string grammar, grammar_kind;
  bool continuation = false; // of the assistant's last message
};

struct ChatPrompt {
  Prompt prompt;
  std::shared_ptr<AnswerShape> answer;
  size_t least_tokens = 0; // where it was not rendered: tokens that the messages have at least
};

// Pool thread. False, and nothing but `least_tokens` is there, where the messages cannot fit.
bool render_chat(ModelState &model, const ChatInput &input, const volatile int32_t *cancelled, ChatPrompt &out);

// How JavaScript holds an answer's shape.
using HeldShape = Napi::External<std::shared_ptr<AnswerShape>>;
HeldShape hold(Napi::Env env, const std::shared_ptr<AnswerShape> &answer);
// What of its schemas is not enforced.
Napi::Array to_js(Napi::Env env, const std::vector<schema::Loss> &losses);

} // namespace recua
