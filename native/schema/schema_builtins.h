// Rules of GBNF that schemas share, by name.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace recua::schema {

struct Builtin {
  const char *content;
  std::vector<const char *> needs;
};

const std::map<std::string, Builtin> &builtins();

} // namespace recua::schema
