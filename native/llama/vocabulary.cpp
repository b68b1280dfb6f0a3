// Compiled in place of llama.cpp's src/llama-vocab.cpp, which it holds. That file makes room for
// exactly one more token each time a character becomes byte tokens, so that a long run of them
// copies all tokens before for each. Room is only a promise about speed there: left to grow by
// itself, it doubles.
#include "llama-vocab.h"

#include "ggml.h"
#include "gguf.h"
#include "llama-impl.h"
#include "llama-model-loader.h"
#include "unicode.h"

#include <algorithm>
#include <cassert>
#include <cctype>
#include <cfloat>
#include <cmath>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <forward_list>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <unordered_map>

#define reserve(count) reserve(0)
#include <llama-vocab.cpp>
