// How often the parser of grammars looks for a token by its name. gbnf.test.ts compiles it and
// reads its output: how often for one name in many places, and for many names, which are too much
// work.
#include "grammar/gbnf.h"

#include <cstdio>

int main() {
  int lookups = 0;
  const auto parse = [&](const std::string &text) {
    lookups = 0;
    recua::Effort work(20u << 20);
    const auto named = [&](const std::string &) { return lookups++; };
    const auto spelled = [](uint32_t, uint32_t, recua::Effort &) { return true; };
    recua::parse_gbnf(text, named, 0, spelled, work);
  };
  std::string same = "root ::= ", different = same;
  for (int i = 0; i < 100000; i++) {
    same += "<a>";
    different += '<' + std::to_string(i) + '>';
  }
  parse(same);
  const int of_one = lookups;
  bool refused = false;
  try {
    parse(different);
  } catch (const recua::TooMuchWork &) {
    refused = true;
  }
  std::printf("{\"ofOne\":%d,\"refused\":%s,\"ofMany\":%d}\n", of_one, refused ? "true" : "false", lookups);
}
