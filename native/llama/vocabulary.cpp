// Compiled in place of llama.cpp's src/llama-vocab.cpp, which it includes. Each time a character
// becomes byte tokens, that file reserves space for exactly one more token, so a long run of them
// copies all earlier tokens each time. Without the reserve() calls the vector grows by doubling.
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
