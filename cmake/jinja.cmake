# llama.cpp's engine for chat templates, compiled from copies. They bound what a template may consume
# (native/llama-common/jinja_bounds.h) and copy less. And they do what Jinja2 does where llama.cpp's
# engine fails or loses values (jinja_filters.h), in what templates do with tools and calls.
# Included by the root CMakeLists.txt after edited-copy.cmake, before schema-converter.cmake.
foreach(name runtime caps value string parser)
  recua_edit(llama-common "jinja/${name}.cpp")
  foreach(header lexer runtime caps value string utils parser)
    string(REPLACE "#include \"${header}.h\"" "#include \"jinja/${header}.h\"" text "${text}")
  endforeach()

  if(name STREQUAL "runtime")
    recua_behind("value statement::execute(context & ctx) const {" "recua_jinja::enter();")
    recua_instead("        return execute_impl(ctx);" "        value result = execute_impl(ctx);\n        recua_jinja::made(result);\n        return result;")
    # Each name and each member made a copy of the table of all functions.
    recua_instead("auto builtins = global_builtins();" "const auto & builtins = global_builtins();")
    recua_instead("auto builtins = input->get_builtins();" "const auto & builtins = input->get_builtins();")
    # A scope is a copy of all variables, which only a loop's condition needs. Templates that look
    # through all messages for each message made millions of them.
    recua_instead("context loop_scope(scope);" "std::optional<context> own_scope; recua_jinja::step(2);\n        if (select_expr && test_expr) { own_scope.emplace(scope); recua_jinja::scope(); }\n        context & loop_scope = own_scope ? *own_scope : scope;")
    recua_behind("context scope(ctx);" "recua_jinja::scope();")
    recua_behind("context macro_ctx(args.ctx);" "recua_jinja::scope();")
    recua_behind("context block_ctx(caller_ctx);" "recua_jinja::scope();")
    recua_behind("context call_ctx(ctx);" "recua_jinja::scope();")
    recua_behind("ctx.set_val(var_name, rhs);" "recua_jinja::variable(var_name);")
    recua_behind("            res->val_str.append(str);" "recua_jinja::step(1); recua_jinja::text(str);")
    recua_behind("ctx.set_val(var_name, arr[i]);" "recua_jinja::variable(var_name);")
    recua_behind("ctx.set_val(id, items[i]);" "recua_jinja::variable(id);")
    recua_behind("ctx.set_val(id, items[i]->as_array()[0]);" "recua_jinja::variable(id);")
    recua_behind("ctx.set_val(id, c_arr[j]);" "recua_jinja::variable(id);")
    # The loop's body may have taken values out of a list that a later round unpacks.
    recua_behind("auto & c_arr = items[i]->as_array();" "if (c_arr.size() < tuple->val.size()) throw std::runtime_error(\"Too few items to unpack\");")
    # A type that is missing or a list, looked for among types: `t in ["string", "integer"]`.
    recua_behind("    // Handle undefined and null values\n" "
    if (is_val<value_undefined>(left_val) && is_val<value_array>(right_val) && (op.value == \"in\" || op.value == \"not in\")) return mk_val<value_bool>(op.value == \"not in\");\n")
    recua_instead("    } else if (is_val<value_array>(right_val)) {\n        // case: 1 in" "    }\n    if (is_val<value_array>(right_val)) {\n        // case: 1 in")
    # `schema['items']` of an array of anything is no method.
    recua_instead("        if (is_val<value_undefined>(val)) {\n            val = try_builtin_func(ctx, key, object, true);" "        if (is_val<value_undefined>(val) && !this->computed) {\n            val = try_builtin_func(ctx, key, object, true);")
    foreach(list result body_val out)
      recua_instead("    gather_string_parts_recursive(${list}," "    recua_jinja::printed(${list});\n    gather_string_parts_recursive(${list},")
    endforeach()
    recua_behind("const size_t input_count = args.count();" "recua_jinja::work(expected_count * (1 + input_count));")
    recua_behind("auto obj_ptr = cast_val<value_object>(object);" "recua_jinja::used(*object);")
    recua_instead("left_val->as_string().append(right_val->as_string())" "recua_jinja::as_text(left_val)->as_string().append(recua_jinja::as_text(right_val)->as_string())")
    recua_instead("input = mk_val<value_string>(input->as_string());" "input = mk_val<value_string>(recua_jinja::as_text(input)->as_string());")
    # A method has no members: `schema.items.type`, where `items` is the method of all objects.
    recua_behind("bool undef_on_missing = false) {" "recua_jinja::used(*input); if (undef_on_missing && is_val<value_func>(input)) return mk_val<value_undefined>(name);")
    recua_behind("arr_size = object->as_string().length();" "recua_jinja::used(*object);")
    recua_behind("auto str = object->as_string().str();" "recua_jinja::used(*object);")
    recua_behind("    ensure_key_type_allowed(property);" "recua_jinja::used(*property);")
    recua_behind("    value right_val = right->execute(ctx);" "if (op.value == \"==\" || op.value == \"!=\") recua_jinja::compared(*left_val, *right_val);")
    recua_behind("double b = right_val->as_float();" "if (op.value == \"%\") recua_jinja::modulus(b);")
    recua_behind("auto & right_arr = right_val->as_array();" "recua_jinja::step((left_arr.size() + right_arr.size()) / 8);")
  elseif(name STREQUAL "caps")
    recua_behind("auto results = runtime.execute(prog);" "recua_jinja::printed(results);")
  elseif(name STREQUAL "value")
    recua_instead("std::sort(" "std::stable_sort(") # which stays within its bounds whatever the order is
    recua_behind("            result.push_back(array[static_cast<size_t>(i)]);\n        }" "if (step > len || step < -len) break;")
    # `name in required` for each property of a tool: strings are compared without copies.
    recua_behind("            if (is_val<value_array>(haystack)) {" "
                if (is_val<value_string>(needle)) return mk_val<value_bool>(recua_jinja::contains(haystack->as_array(), needle->val_str));")
    # Numbers keep their digits: llama.cpp prints six, and wraps integers that are too large.
    recua_instead("oss << val->as_float();" "oss << recua_jinja::number(val->as_float());")
    recua_instead("return val->as_repr();" "return is_val<value_float>(val) ? recua_jinja::number(val->as_float()) : val->as_repr();")
    # Strings in a printed list are quoted as Python does, so that they can be told apart.
    recua_instead("        if (val_str.find('\\'') != std::string::npos) {\n            return value_to_json(val);\n        } else {\n            return \"'\" + val_str + \"'\";\n        }" "        return recua_jinja::quoted(val_str);")
    recua_instead("} else if (j.is_number_integer()) {" "} else if (j.is_number_integer() && (j.get<int64_t>() >= 0 || j.get<double>() < 0)) {")
    recua_instead("} else if (j.is_number_float()) {" "} else if (j.is_number()) {")
    # The filter map('upper'): another filter for each value.
    recua_instead("            if (!is_val<value_kwarg>(args.get_args().at(1))) {\n                throw not_implemented_exception(\"map: filter-mapping not implemented\");" "
            if (is_val<value_string>(args.get_args().at(1))) return recua_jinja::mapped(args);
            if (!is_val<value_kwarg>(args.get_args().at(1))) {
                throw not_implemented_exception(\"map: filter-mapping not implemented\");")
    # The filter selectattr("type", "defined"): a test without an argument, of a member.
    recua_instead("    if (args.count() == 2) {\n        // example: array | selectattr(\"active\")" "
    if (args.count() == 3 && (args.func_name == \"selectattr\" || args.func_name == \"rejectattr\")) return recua_jinja::chosen(args, is_reject);
    if (args.count() == 2) {\n        // example: array | selectattr(\"active\")")
    recua_instead("{\"unique\", array_unique_not_implemented}," "{\"unique\", recua_jinja::unique},")
    recua_instead("[[noreturn]] static value array_unique_not_implemented(const func_args &) {\n    throw not_implemented_exception(\"Array unique builtin not implemented\");\n}\n" "")
    recua_behind("for (const auto & item : haystack->as_array()) {" "recua_jinja::compared(*needle, *item);")
    recua_behind("got args[1] as \" + needle->type());\n                }" "recua_jinja::searched(haystack->val_str.length(), needle->val_str.length());")
    recua_behind("bool value_compare(const value & a, const value & b, value_compare_op op) {" "recua_jinja::compared(*a, *b);")
    recua_behind("throw raised_exception(\"range() step argument must not be zero\");\n            }" "recua_jinja::range(start, stop, step);")
    recua_behind("args.ensure_vals<value_int, value_int>();" "recua_jinja::divisor(args.get_pos(0)->val_int, args.get_pos(1)->val_int);")
    recua_behind("indent = static_cast<int>(val_indent->as_int());" "if (indent > 0) recua_jinja::width(indent);")
    recua_instead("indent.assign(val_width->as_int(), ' ');" "recua_jinja::width(val_width->as_int()); indent.assign(val_width->as_int(), ' ');")
    recua_behind("                indented += line;" "recua_jinja::text(indent.size() + line.size());")
    recua_behind("throw raised_exception(\"empty separator\");\n            }" "recua_jinja::rewrite(str, delim, 0);")
    recua_behind("if (old_str != new_str) {" "recua_jinja::rewrite(str, old_str, new_str.size());")
    recua_instead("result += val_arr->as_string().str();" "result += recua_jinja::as_text(val_arr)->as_string().str();")
    recua_behind("                result += recua_jinja::as_text(val_arr)->as_string().str();" "recua_jinja::step(1); recua_jinja::text(val_arr->as_string().length() + delim.size());")
    recua_behind("const jinja::string arg_str = args.get_pos(arg_idx++)->as_string();" "recua_jinja::text(arg_str);")
    recua_instead("key_sep) {\n    auto indent_str" "key_sep) {\n    recua_jinja::enter();\n    recua_jinja::text(16 + (indent > 0 ? static_cast<size_t>(curr_lvl) * static_cast<size_t>(indent) : 0) + (is_val<value_string>(val) ? val->val_str.length() : 0));\n    auto indent_str")
    recua_behind("std::string value_to_string_repr(const value & val) {" "recua_jinja::enter(); if (is_val<value_string>(val)) recua_jinja::text(val->val_str.length());")
    recua_behind("void value_t::stats_t::mark_used(value & val, bool deep) {" "recua_jinja::enter();")
  elseif(name STREQUAL "string")
    recua_instead("parts.erase(parts.begin() + i);" "recua_jinja::work(1 + parts.size() / 8); parts.erase(parts.begin() + i);")
    recua_behind("auto match_char = [&chars](unsigned char c) -> bool {" "if (chars) recua_jinja::searched(chars->size(), 1);")
  else()
    # A list, an object or a number is printed as Python does: llama.cpp prints the texts in a list,
    # nothing for an object, and six digits of a number behind its point. While it tries what a
    # template supports, it still does.
    recua_instead("class parser {" "struct printed_expression : public statement {
    statement_ptr printed;
    explicit printed_expression(statement_ptr && printed) : printed(std::move(printed)) {}
    std::string type() const override { return \"PrintedExpression\"; }
    void visit(context & ctx) const override { printed->visit(ctx); }
    value execute_impl(context & ctx) const override {
        value result = printed->execute(ctx);
        return ctx.is_get_stats ? result : recua_jinja::as_text(result);
    }
};

class parser {")
    recua_instead("        expect(token::close_expression, \"Expected }}\");\n        return result;" "        expect(token::close_expression, \"Expected }}\");
        return mk_stmt<printed_expression>(start_pos, std::move(result));")
    recua_instead("        expect(token::open_expression, \"Expected {{\");\n" "        const size_t start_pos = current;\n        expect(token::open_expression, \"Expected {{\");\n")
    foreach(rule "parse_any()" "parse_expression()" "parse_if_expression()" "parse_logical_negation_expression()" "parse_unary_expression()"
        "parse_call_expression(statement_ptr callee)" "parse_if_statement(size_t start_pos)" "parse_primary_expression()")
      recua_behind("    statement_ptr ${rule} {" "recua_jinja::enter();")
    endforeach()
    recua_behind("program parse_from_tokens(const lexer_result & lexer_res) {" "recua_jinja::tokens(lexer_res.tokens.size());")
  endif()

  recua_compile("\"jinja_bounds.h\"" "\"jinja_filters.h\"" "<optional>")
endforeach()

foreach(name bounds filters)
  target_sources(llama-common PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/native/llama-common/jinja_${name}.cpp")
endforeach()
