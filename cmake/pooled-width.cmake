# Refuses a context for vectors or scores whose number of values is not the one that the model's
# metadata says: llama.cpp would read values of other inputs, or beyond the last and end the
# process. Included by the root CMakeLists.txt after edited-copy.cmake.
recua_edit(llama llama-graph.cpp)
recua_behind("    if (t_embd_pooled != nullptr) {" "
        const auto pooling = params.cparams.pooling_type;
        const int64_t stated = pooling == LLAMA_POOLING_TYPE_RANK ? params.hparams.n_cls_out : params.hparams.n_embd_out();
        if (pooling != LLAMA_POOLING_TYPE_NONE && t_embd_pooled->ne[0] != stated) {
            throw std::runtime_error(\"expected \" + std::to_string(stated) + \" values for each input, as the metadata says, got \" + std::to_string(t_embd_pooled->ne[0]) + \" from the tensors\");
        }")
recua_compile("<stdexcept>" "<string>")
