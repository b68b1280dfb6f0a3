// Text in messages stays text: text from a user, a tool or an earlier answer never becomes a
// control token, however a template assembles it. Text from users and tools does not become one of
// the other tokens in brackets either, such as <tool_response>, which would make it look like
// output of a tool; in system messages, tools and earlier answers these tokens keep their meaning.
//
// Each character of the messages that could begin a control token is replaced by a twin, a
// private-use character that occurs nowhere else. The template is rendered; then twins become the
// original characters again, and no control token begins where they stood. Whatever a template does
// with text (trim, split, JSON), it also does with twins. Used by chat.cpp on pool threads.
#pragma once

#include "model/tokens.h"

#include <functional>
#include <string>
#include <vector>

namespace recua {

struct Prompt {
  std::string text;
  std::vector<int32_t> literal; // byte offsets where no control token begins; as ~offset: no other whole token either
};

// Both are JSON texts in llama.cpp's format.
struct MessageTexts {
  std::string messages, tools;
};

// `rendered` is the prompt of the original `texts`; `render` renders other texts with the same
// template, whose text is `source`. Throws `invalid_messages` if the template cannot be rendered
// unless control tokens in the messages take effect.
Prompt keep_text(const Specials &specials, const std::string &rendered, const MessageTexts &texts,
                 const std::string &source, const std::function<std::string(const MessageTexts &)> &render);

} // namespace recua
