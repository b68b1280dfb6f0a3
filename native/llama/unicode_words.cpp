// Compiled in place of llama.cpp's src/unicode.cpp, which it includes, so that words are cut by
// regex_split.h there, too.
#include "regex_split.h"

#include <unicode.cpp>
