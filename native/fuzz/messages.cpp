// Text of a user and of a tool, rendered by the built-in model's chat template. However it is
// spelled, the prompt has as many control tokens as with harmless text.
#include "fuzz/vocabulary.h"
#include "chat/message_text.h"
#include "chat/templates.h"

#include "json.h"

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>

using namespace recua;

namespace {

std::string messages_of(const std::string &asked, const std::string &told) {
  auto list = common_json::array();
  common_json question = {{"role", "user"}, {"content", asked}};
  common_json answer = {{"role", "assistant"}, {"content", "I look."}};
  common_json result = {{"role", "tool"}, {"content", told}, {"tool_call_id", "call_1"}};
  for (const auto &message : {question, answer, result}) list.push_back(message);
  return list.dump();
}

std::string render(const Templates &templates, const std::string &messages) {
  common_chat_templates_inputs inputs;
  inputs.messages = common_chat_msgs_parse_oaicompat(common_json::parse(messages));
  inputs.add_generation_prompt = true;
  inputs.use_jinja = true;
  return templates.prompt(inputs);
}

size_t control_tokens(const Templates &templates, const std::string &asked, const std::string &told) {
  const auto &world = fuzz::vocabulary();
  const MessageTexts texts{messages_of(asked, told), ""};
  const auto prompt = keep_text(world.specials, render(templates, texts.messages), texts, templates.source(),
                                [&](const MessageTexts &other) { return render(templates, other.messages); });
  TokenizeOptions options;
  options.parse_special = true;
  options.literal = prompt.literal;
  const auto tokens = tokenize(world.vocab, world.specials, prompt.text, options);
  return static_cast<size_t>(std::count_if(tokens.begin(), tokens.end(), [&](llama_token token) {
    return (llama_vocab_get_attr(world.vocab, token) & LLAMA_TOKEN_ATTR_CONTROL) != 0;
  }));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const Templates templates(fuzz::vocabulary().model, "");
  static const size_t usual = control_tokens(templates, "Hello?", "It rains.");
  FuzzedDataProvider input(data, size);
  const std::string asked = input.ConsumeRandomLengthString();
  const std::string told = input.ConsumeRemainingBytesAsString();
  try {
    fuzz::promise(control_tokens(templates, "a" + asked, "b" + told) == usual, "no text makes or unmakes a control token");
  } catch (const std::exception &) { // not UTF-8, or refused
  }
  return 0;
}
