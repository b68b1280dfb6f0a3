// Where a call of a tool is required nothing else may come of an answer, but what the model thinks
// before. llama.cpp's formats let it say something first, and behind; and may then go on saying it.
// Used on pool threads.
#pragma once

#include "chat.h"

#include <string>

namespace recua {

// Has the grammar of an answer allow calls and thoughts only. `begun`: what the prompt has of the
// answer's content already. False where the format has parts that are not known.
bool force_call(const common_peg_arena &parser, const std::string &begun, std::string &grammar);

} // namespace recua
