// A chat format's parser as GBNF, as common_peg_arena::build_grammar of llama.cpp v0.5.0 writes it:
// so that parts of a format's grammar can be written anew (custom_input, forced_call).
#pragma once

#include "chat.h"

#include <optional>
#include <string>
#include <utility>

namespace recua::format {

constexpr int most_depth = 100; // of parsers within each other

// Names of rules, as llama.cpp's parsers make them of names of tools.
std::string clean(const std::string &name);
// What a parser without parts is; '' is nothing. None for those with parts.
std::optional<std::string> leaf(const common_peg_arena &arena, common_peg_parser_id id);
// `one` so many times; `most` below 0 is without end.
std::string repeat(const std::string &one, int least, int most);
// The one parser in one that only names or marks it; none where there are several, or no mark.
std::optional<common_peg_parser_id> inside(const common_peg_arena &arena, common_peg_parser_id id);
// The text of a grammar's rule, from behind its "::= " to the end of its line; npos where there is
// none.
std::pair<size_t, size_t> find_rule(const std::string &grammar, const std::string &name);

} // namespace recua::format
