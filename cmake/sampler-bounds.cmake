# Bounds llama.cpp's samplers of a request's options: DRY keeps a token that holds a whole breaker
# once, not once per breaker; infill keeps the best token if the model has no end token, where
# llama.cpp aborts, and makes room for long texts of tokens. Included by the root CMakeLists.txt
# after edited-copy.cmake.
recua_edit(llama llama-sampler.cpp)
recua_instead("            token_sequences.emplace(token_id, std::vector<llama_token>());\n" "            const auto known = token_sequences.equal_range(token_id);\n            if (std::none_of(known.first, known.second, [](const auto & one) { return one.second.empty(); })) {\n                token_sequences.emplace(token_id, std::vector<llama_token>());\n            }\n")
recua_instead("ctx->buf0.resize(len0);" "ctx->buf0.resize(-len0);")
recua_instead("ctx->buf1.resize(len1);" "ctx->buf1.resize(-len1);")
recua_instead("        cur_p->size = 1;\n        cur_p->data[0].id = ctx->vocab->token_eot();" "        cur_p->size = 1;\n        const llama_token best = cur_p->data[0].id;\n        cur_p->data[0].id = ctx->vocab->token_eot();")
recua_instead("        cur_p->data[0].logit = 1.0f;\n\n        GGML_ASSERT(cur_p->data[0].id != LLAMA_TOKEN_NULL);" "        if (cur_p->data[0].id == LLAMA_TOKEN_NULL) {\n            cur_p->data[0].id = best;\n        }\n        cur_p->data[0].logit = 1.0f;")
recua_compile()
