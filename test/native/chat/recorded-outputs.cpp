// The recordings of llama.cpp's tests/test-chat.cpp: for each chat format, answers of models and
// their parsed form. Prints each as a line of JSON. The source of that test is included (RECORDED)
// without its checks; the cases go to tell() instead. recorded-outputs.test.ts parses the output.
#include "chat.h"
#include "common.h"
#include "json.h"
#include "log.h"

#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

template <typename Case> static void tell(common_chat_templates *templates, const std::string &path, const Case &given);
static std::string g_template_filter;

#include RECORDED

// Recua always parses answers, including thoughts. If a case leaves thoughts in the content, the
// output of llama.cpp's own parser replaces the recording.
template <typename Case> static void tell(common_chat_templates *templates, const std::string &path, const Case &given) {
  auto inputs = given.params;
  if (inputs.messages.empty()) inputs.messages = {message_user};
  const bool recorded = inputs.reasoning_format != COMMON_REASONING_FORMAT_NONE;
  common_chat_msg expected = given.expect;
  if (!recorded) {
    inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
    expected = make_peg_parser(templates, inputs).parse(given.input, given.is_partial);
  }
  auto calls = common_json::array();
  for (const auto &call : expected.tool_calls) calls.push_back(common_json{{"name", call.name}, {"arguments", call.arguments}, {"id", call.id}});
  static const char *const continuations[] = {"none", "auto", "reasoning_content", "content"};
  static const char *const choices[] = {"auto", "required", "none"};
  common_json line = {
      {"template", path},
      {"messages", common_chat_msgs_to_json_oaicompat(inputs.messages).dump()},
      {"tools", inputs.tools.empty() ? std::string() : common_chat_tools_to_json_oaicompat(inputs.tools).dump()},
      {"toolChoice", choices[inputs.tool_choice]},
      {"jsonSchema", inputs.json_schema},
      {"parallelToolCalls", inputs.parallel_tool_calls},
      {"enableThinking", inputs.enable_thinking},
      {"addGenerationPrompt", inputs.add_generation_prompt},
      {"continuation", continuations[inputs.continue_final_message]},
      {"input", given.input},
      {"partial", given.is_partial},
      {"recorded", recorded},
      {"content", expected.content},
      {"reasoning", expected.reasoning_content},
      {"toolCalls", calls},
  };
  std::puts(line.dump().c_str());
}

int main() {
  common_log_set_verbosity_thold(-1);
  test_template_output_peg_parsers(false);
  return 0;
}
