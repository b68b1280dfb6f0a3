// Forms of messages of which a template prints every text. Some templates print a list of text
// parts as code, or only its first part, and some leave out a text beside thoughts. What a template
// does is found out once for each kind of message, by rendering short conversations.
#pragma once

#include "chat.h"

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace recua {

class TextForms {
public:
  using Render = std::function<std::string(const common_chat_templates_inputs &)>;

  // Joins the parts of the first `count` messages by newlines, and drops their thoughts, where the
  // template needs that.
  void make_printable(std::vector<common_chat_msg> &messages, size_t count, const Render &render);

private:
  // `caller`: an assistant's message with tool calls.
  enum Kind { of_system, of_user, of_assistant, of_caller, of_tool, kinds };

  static Kind kind_of(const common_chat_msg &message);
  // A conversation that templates know, with a message of this kind, which `fill` completes.
  static common_chat_templates_inputs conversation(Kind kind, bool tools, const std::function<void(common_chat_msg &)> &fill);
  bool takes_parts(Kind kind, const Render &render);
  bool takes_thoughts(Kind kind, const Render &render);

  std::array<std::atomic<int>, kinds> parts{-1, -1, -1, -1, -1}; // whether it takes them; -1: not known yet
  std::array<std::atomic<int>, kinds> thoughts{-1, -1, -1, -1, -1};
};

} // namespace recua
