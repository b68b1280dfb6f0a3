// If a tool call is required, an answer may contain nothing else, except thoughts before the call.
// llama.cpp's formats also allow text before and after calls, and a model may go on writing it.
// Used on pool threads.
#pragma once

#include "chat.h"

#include <string>

namespace recua {

// Restricts the grammar of an answer to calls and thoughts. `begun`: the part of the answer's
// content that is already in the prompt. False if the format has unknown parts.
bool force_call(const common_peg_arena &parser, const std::string &begun, std::string &grammar);

} // namespace recua
