# Vocabularies come with model files: bounds what some cost, and keeps within its arrays what reads
# them. Included by the root CMakeLists.txt after edited-copy.cmake.
recua_edit(llama llama-vocab.cpp)

# Each time a character becomes byte tokens, this reserves space for exactly one more token, so a
# long run of them copies all earlier tokens each time. Without it the vector grows by doubling.
recua_instead("            output.reserve(output.size() + symbol.n);\n" "")
recua_instead("                output.reserve(output.size() + n_tokens);\n" "")

# Recua cuts texts at special tokens before (native/model/tokens.h).
recua_behind("void llama_vocab::impl::tokenizer_st_partition(std::forward_list<fragment_buffer_variant> & buffer, bool parse_special) const {" "
    if (recua::TextOnly::wanted()) {
        return;
    }")

# These ended the process: a token that comes twice (or differs behind a NUL only), no tokens, and a
# text to which the file says to add a token that it has not. Recua uses no models without tokens.
recua_instead("    GGML_ASSERT(id_to_token.size() == token_to_id.size());" "
    if (id_to_token.size() != token_to_id.size()) {
        throw std::runtime_error(\"expected each token once, got \" + std::to_string(id_to_token.size() - token_to_id.size()) + \" of them again\");
    }
    // Recua keeps a tree with a node for each of their bytes (native/model/specials.h).
    size_t whole = 0;
    for (const auto & token : id_to_token) {
        if ((token.attr & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED | LLAMA_TOKEN_ATTR_UNKNOWN)) == 0) continue;
        whole += token.text.size();
        if (token.text.size() > 1024 || whole > 16777216) {
            throw std::runtime_error(\"expected tokens that are taken whole to have at most 1024 bytes, and 16 MiB together\");
        }
    }")
recua_behind("const uint32_t n_tokens = gguf_get_arr_n(ctx, token_idx);" "if (n_tokens == 0) throw std::runtime_error(\"expected tokens, got none\");")
recua_behind("            type = LLAMA_VOCAB_TYPE_NONE;" "throw std::runtime_error(\"expected a vocabulary, got none\");")
foreach(id special_bos_id special_eos_id special_sep_id "vocab.token_bos()" "vocab.token_eos()")
  recua_instead("GGML_ASSERT(${id} != LLAMA_TOKEN_NULL);" "if (${id} == LLAMA_TOKEN_NULL) throw std::runtime_error(\"expected the vocabulary to have the token that it adds to a text\");")
endforeach()
# So did spaces in a word of BPE, which only some tokenizers replace. No merge has them.
recua_instead("    GGML_ASSERT(token_left.find(' ')   == std::string::npos);\n    GGML_ASSERT(token_right.find(' ')  == std::string::npos);\n" "    if (token_left.find(' ') != std::string::npos || token_right.find(' ') != std::string::npos) {\n        return -1;\n    }\n")

# RWKV: a text with a byte that begins a token and is none was read for ever.
recua_behind("token_matcher.insert((const char *) text.data(), text.size(), id);\n        }" "
        for (int byte = 0; byte < 256; ++byte) {
            const auto * node = token_matcher.traverse((char) byte);
            if (node == NULL || !node->has_value) {
                throw std::runtime_error(\"expected a token for each byte, got none for byte \" + std::to_string(byte));
            }
        }")

# BPE: each character of a token that stands for no byte became the whole token's text.
recua_behind("decoded_text += text + \"]\";" "
            if (decoded_text.size() > 4096 + 64 * text.size()) {
                throw std::runtime_error(\"expected tokens of characters that stand for bytes, got a long one of others\");
            }")

# RWKV, T5 and WordPiece: a tree with a node for each byte of a token; making and freeing it takes a
# function call for each, and threads have as little as 512 KiB of stack.
recua_behind("void insert(const char * key, size_t len, int32_t value = 0) {" "
        if (len > 1024) {
            throw std::runtime_error(\"expected tokens of at most 1024 bytes, got \" + std::to_string(len));
        }")

# T5: replacements come with the file. Each place in a text was looked up to the text's end, and
# each character could become megabytes; those of Unicode get at most 13 times as long.
recua_instead("for (size_t prefix_offset = input_offset; prefix_offset < input.size(); prefix_offset++) {" "for (size_t prefix_offset = input_offset; prefix_offset < input.size() && prefix_offset - input_offset < 1024; prefix_offset++) {")
recua_instead("size_t max_len = tokenizer.prefix_replacements_size - longest_prefix_offset;" "size_t max_len = std::min<size_t>(1024, tokenizer.prefix_replacements_size - longest_prefix_offset);")
recua_behind("input_offset += norm_res.consumed_input;" "
            if (normalized->size() > 1024 + 32 * input_len) {
                throw std::runtime_error(\"expected replacements of characters by at most 32 times as many bytes\");
            }")

# WordPiece: all parts of a word up to the longest token's length were looked up at each place.
recua_instead("    llm_tokenizer_wpm(const llama_vocab & /*vocab*/) {}" "    llm_tokenizer_wpm(const llama_vocab & vocab) {
        for (uint32_t id = 0; id < vocab.n_tokens(); ++id) {
            const auto & text = vocab.get_token_data(id).text;
            token_matcher.insert(text.data(), text.size(), id);
        }
    }
    struct naive_trie token_matcher;")
recua_instead("    llm_tokenizer_wpm_session(const llama_vocab & vocab) : vocab(vocab) {}" "    llm_tokenizer_wpm_session(const llama_vocab & vocab, const llm_tokenizer_wpm & tokenizer) : vocab(vocab), tokenizer(tokenizer) {}")
recua_instead("    // currently unused\n    // const llm_tokenizer_wpm * wpm_tokenizer;" "    const llm_tokenizer_wpm & tokenizer;")
recua_instead("llm_tokenizer_wpm_session session(vocab);" "llm_tokenizer_wpm_session session(vocab, *static_cast<const llm_tokenizer_wpm *>(tokenizer.get()));")
recua_instead("                for (int j = std::min(n, i + vocab.max_token_len() + 1); j > i; j--) {
                    auto id = vocab.text_to_token(word1.substr(i, j - i));
                    if (id != LLAMA_TOKEN_NULL) {
                        output.push_back(id);
                        match = true;
                        i = j - 1;
                        break;
                    }
                }
" "                llama_token found = LLAMA_TOKEN_NULL;
                int last = i;
                const auto * node = &tokenizer.token_matcher;
                for (int j = i; j < n && (node = node->traverse(word1[j])) != NULL; j++) {
                    if (node->has_value) {
                        found = node->value;
                        last = j;
                    }
                }
                if (found != LLAMA_TOKEN_NULL) {
                    output.push_back(found);
                    match = true;
                    i = last;
                }
")

# PLaMo-2: a token that is not UTF-8 may count as longer than the rest of the text. And all parts of
# all ends of each token are looked up, so 1,000 characters in one take some seconds.
recua_behind("int32_t piece_length = table_[p][TABLE_PIECE_LENGTH];" "if (i + piece_length > static_cast<int32_t>(data_len)) continue;")
recua_behind("std::unordered_map<std::string, float> suffix_to_score;" "double work = 0;")
recua_behind("std::vector<uint32_t> cpts = unicode_cpts_from_utf8(entry.text);" "
            work += std::pow(cpts.size(), 3);
            if (work > 1e9) {
                throw std::runtime_error(\"expected tokens whose lengths, cubed, add up to 1000000000 characters at most\");
            }")

recua_compile("<cmath>" "<stdexcept>" "\"${CMAKE_CURRENT_SOURCE_DIR}/native/llama/text_only.h\"")
