// Custom tools: the model gives them one text, the argument `input`, which follows the tool's own
// rules. If a chat format writes arguments as JSON, the rules replace the schema of the argument;
// if it writes them unquoted, they replace the rule that takes any text up to the closing tag. Used
// on pool threads.
#pragma once

#include "chat.h"

#include <string>
#include <vector>

namespace recua {

// One rule per line. The first is `root`; no other rule may have that name.
struct CustomInput {
  size_t tool = 0;         // its index
  std::string root;
  std::string plain, json; // the rules for unquoted text, and for text inside JSON quotes
};

// The parameters of a custom tool, with a mark at its input. For the grammar only; no prompt may
// contain it.
std::string marked_parameters(const CustomInput &input);

// Makes the answer's grammar follow the rules. False if the format has no place for them.
bool enforce(const CustomInput &input, const std::string &tool, const common_peg_arena &parser,
             std::string &grammar);

} // namespace recua
