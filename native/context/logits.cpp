#include "context/logits.h"

#include "ggml-backend.h"
#include "ggml.h"

#include <cstring>

namespace recua {

LogitsInPlace::LogitsInPlace() { buffer.owner = this; }

void LogitsInPlace::attach(llama_context_params &params, const llama_vocab *vocab) {
  if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU) != nullptr || ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_IGPU) != nullptr) return;
  vocab_size = static_cast<size_t>(llama_vocab_n_tokens(vocab));
  params.cb_eval = on_node;
  params.cb_eval_user_data = this;
}

void LogitsInPlace::expect(size_t rows) {
  expected = rows * vocab_size * sizeof(float);
  from = nullptr;
}

float *LogitsInPlace::row(llama_context *context, int32_t row) const {
  return from != nullptr ? from + static_cast<size_t>(row) * vocab_size : llama_get_logits_ith(context, row);
}

void LogitsInPlace::copy() {
  if (from != nullptr) std::memcpy(to, from, expected);
  from = nullptr;
}

// llama.cpp shows each node before it computes the graph. Returning false requests no node's data,
// so the whole graph is computed in one go.
bool LogitsInPlace::on_node(ggml_tensor *node, bool ask, void *self) {
  if (!ask) return true;
  auto &logits = *static_cast<LogitsInPlace *>(self);
  if (static_cast<size_t>(node->ne[0]) != logits.vocab_size || std::strcmp(node->name, "result_output") != 0) return false;
  // A reused graph still has the buffer of the last time.
  if (node->buffer == &logits.buffer || node->view_src != nullptr || node->type != GGML_TYPE_F32) return false;
  if (node->buffer == nullptr || !ggml_backend_buffer_is_host(node->buffer)) return false;
  static_cast<ggml_backend_buffer &>(logits.buffer) = *node->buffer;
  logits.buffer.iface.get_tensor = read;
  node->buffer = &logits.buffer;
  return false;
}

void LogitsInPlace::read(ggml_backend_buffer_t buffer, const ggml_tensor *tensor, void *to, size_t offset, size_t size) {
  auto &logits = *static_cast<Buffer *>(buffer)->owner;
  char *from = static_cast<char *>(tensor->data) + offset;
  // All rows requested at once are the only rows of the decode, and their memory stays valid until
  // the next decode.
  if (size == 0 || size != logits.expected) {
    std::memcpy(to, from, size);
    return;
  }
  logits.from = reinterpret_cast<float *>(from);
  logits.to = to;
}

} // namespace recua
