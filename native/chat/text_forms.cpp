// See text_forms.h.
#include "chat/text_forms.h"

#include "coded_error.h"
#include "jinja_bounds.h"

#include <algorithm>
#include <cstring>

namespace recua {

namespace {

// Texts that no template contains, nor changes, as by upper().
const std::string one = "83174", other = "59206";

common_chat_msg message(const std::string &role, const std::string &content) {
  common_chat_msg made;
  made.role = role;
  made.content = content;
  return made;
}

common_chat_msg calling(common_chat_msg made) {
  made.tool_calls.push_back({"look", R"({"at":"it"})", "abcdefghi"});
  return made;
}

common_chat_msg result(const std::string &content) {
  auto made = message("tool", content);
  made.tool_name = "look";
  made.tool_call_id = "abcdefghi";
  return made;
}

bool has_text_parts(const common_chat_msg &message) {
  const auto &parts = message.content_parts;
  return !parts.empty() && std::all_of(parts.begin(), parts.end(), [](const auto &part) { return part.type == "text"; });
}

// Finds a fact out, and keeps it unless a limit ended the attempt. `refused`: what it is if the
// template refuses such a conversation.
bool known(std::atomic<int> &fact, bool refused, const std::function<bool()> &find) {
  const int before = fact.load();
  if (before >= 0) return before != 0;
  const recua_jinja::Session bounds;
  bool found = refused;
  try {
    found = find();
  } catch (const CodedError &error) {
    if (std::strcmp(error.code, "cancelled") == 0) throw;
  } catch (const std::exception &) {
    // complete() tells whether it was a limit.
  }
  recua_jinja::complete();
  fact = found ? 1 : 0;
  return found;
}

} // namespace

TextForms::Kind TextForms::kind_of(const common_chat_msg &message) {
  if (message.role == "assistant") return message.tool_calls.empty() ? of_assistant : of_caller;
  return message.role == "tool" ? of_tool : message.role == "user" ? of_user : of_system;
}

common_chat_templates_inputs TextForms::conversation(Kind kind, bool tools, const std::function<void(common_chat_msg &)> &fill) {
  const auto asked = message("user", "?");
  common_chat_templates_inputs inputs;
  inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  inputs.chat_template_kwargs.emplace("preserve_reasoning", "true");
  auto &messages = inputs.messages;
  if (kind == of_system) messages = {message("system", ""), asked};
  if (kind == of_user) messages = {message("user", "")};
  if (kind == of_assistant) messages = {asked, message("assistant", ""), asked};
  if (kind == of_caller || kind == of_tool) messages = {asked, calling(message("assistant", "")), result(kind == of_tool ? "" : "it")};
  if (tools) inputs.tools.push_back({"look", "", R"({"type":"object","properties":{"at":{"type":"string"}}})"});
  fill(*std::find_if(messages.begin(), messages.end(), [&](const auto &told) { return kind_of(told) == kind; }));
  return inputs;
}

// Whether two parts come out like one text that has between them what the template puts there.
bool TextForms::takes_parts(Kind kind, const Render &render) {
  const auto takes = [&](bool tools) {
    const std::string shown = render(conversation(kind, tools, [](auto &told) { told.content_parts = {{"text", one}, {"text", other}}; }));
    const size_t at = shown.find(one), next = shown.find(other);
    if (at == std::string::npos || next == std::string::npos || next < at) return false;
    const std::string text = shown.substr(at, next - at) + other;
    return render(conversation(kind, tools, [&](auto &told) { told.content = text; })) == shown;
  };
  return known(parts[kind], false, [&] { return takes(false) && takes(true); });
}

// Whether a text comes out that stands beside thoughts.
bool TextForms::takes_thoughts(Kind kind, const Render &render) {
  return known(thoughts[kind], true, [&] {
    const auto shows = [&](const std::string &reasoning) {
      return render(conversation(kind, kind == of_caller, [&](auto &told) {
        told.content = one;
        told.reasoning_content = reasoning;
      })).find(one) != std::string::npos;
    };
    return shows(other) || !shows("");
  });
}

void TextForms::make_printable(std::vector<common_chat_msg> &messages, size_t count, const Render &render) {
  for (size_t i = 0; i < count; i++) {
    auto &message = messages[i];
    const Kind kind = kind_of(message);
    if (has_text_parts(message) && !takes_parts(kind, render)) {
      message.content = message.render_content("\n");
      message.content_parts.clear();
    }
    const bool has_text = !message.content.empty() || !message.content_parts.empty();
    if (!message.reasoning_content.empty() && has_text && !takes_thoughts(kind, render)) message.reasoning_content.clear();
  }
}

} // namespace recua
