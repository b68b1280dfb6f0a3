// The name of a grammar's rule, made from a name that a request gave: letters, digits and - stay,
// anything else becomes -. Names that differ stay different: one that was changed ends with a hash
// of what it was. Compiled into llama-common, in place of its own rule_name()
// (cmake/peg-parser.cmake), which gives "a_b", "a-b" and "a+b" one rule, and all names in Chinese.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace recua {

inline std::string rule_name(const std::string &name) {
  std::string made;
  bool fitted = true, changed = false;
  uint64_t hash = 0xcbf29ce484222325u; // FNV-1a
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    if (fits) made += c;
    else if (fitted) made += '-';
    changed = changed || !fits;
    fitted = fits;
  }
  if (!changed) return made;
  char digits[18];
  std::snprintf(digits, sizeof digits, "-%016llx", static_cast<unsigned long long>(hash));
  return made + digits;
}

} // namespace recua
