// Custom tools: what the model gives them is one text, the argument `input`, that keeps to rules of
// the tool's own. Where a chat format writes arguments as JSON the rules stand where the schema of
// the argument would; where it writes them as they are, in place of what takes any text up to the
// closing tag. Used on pool threads.
#pragma once

#include "chat.h"

#include <string>
#include <vector>

namespace recua {

// One rule to a line, the first of which is `root`, which no other rule is called.
struct CustomInput {
  size_t tool = 0;         // index
  std::string root;
  std::string plain, json; // the rules of the text as it is, and between the quotes of JSON
};

// The parameters of a custom tool with a mark at its input, for the grammar only: no prompt may
// have it.
std::string marked_parameters(const CustomInput &input);

// Has the answer's grammar follow the rules. False where the format gives them no place.
bool enforce(const CustomInput &input, const std::string &tool, const common_peg_arena &parser,
             std::string &grammar);

} // namespace recua
