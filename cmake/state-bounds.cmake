# Refuses saved states that were tampered with before they take memory or break a sequence: llama.cpp
# reserves room for as many cells as the bytes say, ends the process if a sequence of a recurrent
# model has not exactly one, and could not remove a cell at the last possible position. Takes states
# of contexts with another number of sequences: of a sequence's state, all streams but one are empty.
# Included by the root CMakeLists.txt after edited-copy.cmake.
foreach(memory "kv-cache;cells.size();1" "memory-recurrent;1;0")
  list(GET memory 0 name)
  list(GET memory 1 most)
  list(GET memory 2 sequences)
  recua_edit(llama llama-${name}.cpp)
  recua_instead("llama_ubatch ubatch = balloc.ubatch_reserve(cell_count, 1);" "if (cell_count > ${most}) {\n            LLAMA_LOG_ERROR(\"%s: not enough cells for the saved state\", __func__);\n            return false;\n        }\n        llama_ubatch ubatch = balloc.ubatch_reserve(cell_count, 1);")
  recua_instead("if (n_seq_id != ${sequences}) {" "if (n_seq_id != ${sequences} || pos < 0 || pos == INT32_MAX) {")
  if(name STREQUAL "kv-cache")
    recua_instead("if (n_stream_cur != n_stream) {" "if (n_stream_cur != n_stream && (seq_id == -1 || sinfos_out || sinfos_in)) {")
    recua_instead("for (uint32_t s = 0; s < n_stream; ++s) {\n        uint32_t cell_count;\n" "for (uint32_t s = 0; s < n_stream_cur; ++s) {\n        uint32_t cell_count;\n")
  endif()
  recua_compile()
endforeach()
