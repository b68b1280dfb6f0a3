#include "schema/schema_builtins.h"

namespace recua::schema {

const std::map<std::string, Builtin> &builtins() {
  static const std::map<std::string, Builtin> all = {
      {"space", {"| \" \" | \"\\n\"{1,2} [ \\t]{0,20}", {}}},
      {"boolean", {"(\"true\" | \"false\")", {}}},
      {"decimal-part", {"[0-9]{1,16}", {}}},
      {"integral-part", {"[0] | [1-9] [0-9]{0,15}", {}}},
      {"number", {"(\"-\"? integral-part) (\".\" decimal-part)? ([eE] [-+]? integral-part)?", {"integral-part", "decimal-part"}}},
      {"integer", {"(\"-\"? integral-part)", {"integral-part"}}},
      {"value", {"object | array | string | number | boolean | null", {"object", "array", "string", "number", "boolean", "null"}}},
      {"object", {"\"{\" space ( string \":\" space value (\",\" space string \":\" space value)* )? space \"}\"", {"string", "value"}}},
      {"array", {"\"[\" space ( value (\",\" space value)* )? space \"]\"", {"value"}}},
      {"uuid", {"\"\\\"\" [0-9a-fA-F]{8} \"-\" [0-9a-fA-F]{4} \"-\" [0-9a-fA-F]{4} \"-\" [0-9a-fA-F]{4} \"-\" [0-9a-fA-F]{12} \"\\\"\"", {}}},
      {"char", {"[^\"\\\\\\x7F\\x00-\\x1F] | [\\\\] ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4})", {}}},
      {"string", {"\"\\\"\" char* \"\\\"\"", {"char"}}},
      {"null", {"\"null\"", {}}},
      {"date", {"[0-9]{4} \"-\" ( \"0\" [1-9] | \"1\" [0-2] ) \"-\" ( \"0\" [1-9] | [1-2] [0-9] | \"3\" [0-1] )", {}}},
      {"time", {"([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9] \":\" [0-5] [0-9] ( \".\" [0-9]{3} )? ( \"Z\" | ( \"+\" | \"-\" ) ( [01] [0-9] | \"2\" [0-3] ) \":\" [0-5] [0-9] )", {}}},
      {"date-time", {"date \"T\" time", {"date", "time"}}},
      {"date-string", {"\"\\\"\" date \"\\\"\"", {"date"}}},
      {"time-string", {"\"\\\"\" time \"\\\"\"", {"time"}}},
      {"date-time-string", {"\"\\\"\" date-time \"\\\"\"", {"date-time"}}},
  };
  return all;
}

} // namespace recua::schema
