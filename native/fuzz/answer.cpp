// A model's answer, read by the parser of one of llama.cpp's chat templates: whole, and in parts as
// it arrives. RECUA_FUZZ_TEMPLATES names the templates' folder.
#include "fuzz/vocabulary.h"
#include "chat/templates.h"

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

using namespace recua;

namespace {

const char *tools = R"([{"type":"function","function":{"name":"look_up","description":"Looks up.","parameters":{"type":"object",
"properties":{"what":{"type":"string"},"count":{"type":"integer"},"more":{"type":"array","items":{"type":"object"}}},"required":["what"]}}},
{"type":"function","function":{"name":"wait","parameters":{"type":"object","properties":{}}}}])";

struct Format {
  std::shared_ptr<const ChatShape> shape; // null if the template refuses such a request
};

std::vector<std::string> sources() {
  const char *folder = std::getenv("RECUA_FUZZ_TEMPLATES");
  std::vector<std::string> paths, texts;
  for (const auto &entry : std::filesystem::directory_iterator(folder == nullptr ? RECUA_FUZZ_TEMPLATES : folder)) {
    if (entry.path().extension() == ".jinja") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  for (const auto &path : paths) {
    std::ifstream file(path, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

Format make(const std::string &source, bool with_tools) {
  try {
    Templates templates(fuzz::vocabulary().model, source);
    common_chat_templates_inputs inputs;
    inputs.messages = common_chat_msgs_parse_oaicompat(common_json::parse(R"([{"role":"user","content":"Look."}])"));
    if (with_tools) inputs.tools = common_chat_tools_parse_oaicompat(common_json::parse(tools));
    inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
    inputs.parallel_tool_calls = true;
    return {templates.apply(inputs, {}, "", false).shape};
  } catch (const std::exception &) {
    return {};
  }
}

const Format &format(size_t index, bool with_tools) {
  static const auto texts = sources();
  static std::map<std::pair<size_t, bool>, Format> made;
  index %= texts.size();
  const auto found = made.find({index, with_tools});
  if (found != made.end()) return found->second;
  return made.emplace(std::make_pair(index, with_tools), make(texts[index], with_tools)).first->second;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const bool installed = (schema::install(), true);
  (void) installed;
  FuzzedDataProvider input(data, size);
  const auto &[shape] = format(input.ConsumeIntegral<uint8_t>(), input.ConsumeBool());
  if (!shape) return 0;
  const size_t parts = input.ConsumeIntegralInRange<size_t>(1, 4);
  const std::string text = input.ConsumeRemainingBytesAsString();
  const size_t part = text.size() / parts + 1;
  common_chat_parser_params params;
  params.generation_prompt = shape->params.generation_prompt;
  params.format = shape->params.format;
  params.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  common_chat_msg current;
  try {
    for (size_t end = std::min(part, text.size());; end = std::min(end + part, text.size())) {
      const auto next = common_chat_peg_parse(shape->parser, text.substr(0, end), end < text.size(), params);
      if (!next.empty()) {
        common_chat_msg_diff::compute_diffs(current, next);
        current = next;
      }
      if (end == text.size()) break;
    }
  } catch (const std::exception &) { // the caller shows the text as it is
  }
  return 0;
}
