// Compiled in place of llama.cpp's src/unicode.cpp, which it holds: there, too, words are cut by
// regex_split.h.
#include "regex_split.h"

#include <unicode.cpp>
