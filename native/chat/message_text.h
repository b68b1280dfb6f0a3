// Text in messages is text: what a user (or a tool, or an earlier answer) wrote never becomes a
// control token, however a template puts it together. Nor does what a user or a tool wrote become
// one of the other tokens in brackets, such as <tool_response>, by which it would pass for what a
// tool said; in system messages, tools and earlier answers those are what they were. Each character
// of the messages that could begin a control token is replaced by a twin, a private character that
// nothing else contains; the template is rendered; twins become what they stand for, and where they
// stood, no control token begins. What a template does with text (trim, split, JSON) it does with
// twins too. Used by chat.cpp on pool threads.
#pragma once

#include "model/tokens.h"

#include <functional>
#include <string>
#include <vector>

namespace recua {

struct Prompt {
  std::string text;
  std::vector<int32_t> literal; // bytes of the text at which no control token begins; as ~byte, no other one that is taken whole either
};

// Both are JSON texts as llama.cpp reads them.
struct MessageTexts {
  std::string messages, tools;
};

// `rendered` is the prompt of `texts` as they are; `render` renders others by the template, which
// is `source`. Throws `invalid_messages` where a template cannot be rendered without control tokens
// in the messages taking effect.
Prompt keep_text(const Specials &specials, const std::string &rendered, const MessageTexts &texts,
                 const std::string &source, const std::function<std::string(const MessageTexts &)> &render);

} // namespace recua
