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
      {"date", {"[0-9]{4} \"-\" month-day | leap-year \"-02-29\"", {"month-day", "leap-year"}}},
      {"month-day",
       {"( \"0\" [13578] | \"1\" [02] ) \"-\" ( \"0\" [1-9] | [12] [0-9] | \"3\" [01] ) | ( \"0\" [469] | \"11\" ) \"-\" ( \"0\" [1-9] | [12] [0-9] | \"30\" )"
        " | \"02-\" ( \"0\" [1-9] | \"1\" [0-9] | \"2\" [0-8] )",
        {}}},
      {"leap-year", {"[0-9]{2} ( \"0\" [48] | [2468] [048] | [13579] [26] ) | ( [02468] [048] | [13579] [26] ) \"00\"", {}}},
      {"time", {"([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9] \":\" [0-5] [0-9] ( \".\" [0-9]{3} )? ( \"Z\" | ( \"+\" | \"-\" ) ( [01] [0-9] | \"2\" [0-3] ) \":\" [0-5] [0-9] )", {}}},
      {"date-time", {"date \"T\" time", {"date", "time"}}},
      {"date-string", {"\"\\\"\" date \"\\\"\"", {"date"}}},
      {"time-string", {"\"\\\"\" time \"\\\"\"", {"time"}}},
      {"date-time-string", {"\"\\\"\" date-time \"\\\"\"", {"date-time"}}},
  };
  return all;
}

} // namespace recua::schema
