// See text_only.h.
#include "text_only.h"

namespace recua {

namespace {
thread_local bool text_only = false;
} // namespace

TextOnly::TextOnly() : before(text_only) { text_only = true; }
TextOnly::~TextOnly() { text_only = before; }
bool TextOnly::wanted() { return text_only; }

} // namespace recua
