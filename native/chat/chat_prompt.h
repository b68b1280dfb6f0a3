// A chat request as JavaScript sends it, and the result of its template: the prompt, and the rules
// that constrain and parse the answer, which stay in C++. chat.cpp renders; prepare.cpp continues
// to tokens and a sampler.
#pragma once

#include "js.h"

#include "chat/message_text.h"
#include "chat/templates.h"
#include "jinja_bounds.h"

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
  // How to treat a final assistant message: auto, content or reasoning_content continue it; none
  // does not. '' is auto if the answer would begin there.
  std::string continuation;
  bool remember = true;
  std::map<std::string, std::string> kwargs;
  std::vector<CustomInput> customs; // for some of the tools, in order
  double template_seconds = recua_jinja::Watch::most_seconds;
  size_t context_size = 0; // do not render messages whose prompt must exceed this; 0: render all

  explicit ChatInput(const Options &options); // JS thread
  // Everything that the result depends on, except the template and the messages.
  std::string shape_key() const;
};

// How the answer is constrained and parsed. V8 counts only a few bytes for it and collects it late,
// so a parser's close() empties `shape`.
struct AnswerShape {
  std::shared_ptr<const ChatShape> shape;
  std::string grammar, grammar_kind;
  bool continuation = false; // of the assistant's last message
};

struct ChatPrompt {
  Prompt prompt;
  std::shared_ptr<AnswerShape> answer;
  bool shows_tools = true; // whether the template shows tools to the model
  size_t least_tokens = 0; // if not rendered: a lower bound on the tokens of the messages
};

// Pool thread. Returns false, with only `least_tokens` set, if the messages cannot fit.
bool render_chat(ModelState &model, const ChatInput &input, const volatile int32_t *cancelled, ChatPrompt &out);

// JavaScript's handle of an answer's shape.
using HeldShape = Napi::External<std::shared_ptr<AnswerShape>>;
HeldShape hold(Napi::Env env, const std::shared_ptr<AnswerShape> &answer);
// The unenforced keywords as JS objects.
Napi::Array to_js(Napi::Env env, const std::vector<schema::Loss> &losses);

} // namespace recua
