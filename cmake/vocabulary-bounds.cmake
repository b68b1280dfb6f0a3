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

# RWKV: a text with a byte that begins a token and is none was read for ever.
recua_behind("token_matcher.insert((const char *) text.data(), text.size(), id);\n        }" "
        for (int byte = 0; byte < 256; ++byte) {
            const auto * node = token_matcher.traverse((char) byte);
            if (node == NULL || !node->has_value) {
                throw std::runtime_error(\"expected a token for each byte, got none for byte \" + std::to_string(byte));
            }
        }")

# RWKV and T5: a tree with a node for each byte of a token; making and freeing it takes a function
# call for each, and threads have as little as 512 KiB of stack.
recua_behind("void insert(const char * key, size_t len, int32_t value = 0) {" "
        if (len > 1024) {
            throw std::runtime_error(\"expected tokens of at most 1024 bytes, got \" + std::to_string(len));
        }")

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
