// Reads logits where they were computed. After each decode llama.cpp copies them out of its graph:
// for a large vocabulary half a megabyte or more per row, copied by one thread while the others
// wait, and mostly read just once. On the CPU they can be read in place.
#pragma once

#include "llama.h"

#include "ggml-backend-impl.h"

#include <cstddef>

namespace recua {

class LogitsInPlace {
public:
  LogitsInPlace();
  LogitsInPlace(const LogitsInPlace &) = delete;
  LogitsInPlace &operator=(const LogitsInPlace &) = delete;

  // Call before the context is made; the context must not outlive this object. No effect if a GPU
  // device is present.
  void attach(llama_context_params &params, const llama_vocab *vocab);
  // Call before a decode. `rows`: all rows of the decode if every row wants logits, so that nothing
  // else is computed after them. 0: let llama.cpp copy.
  void expect(size_t rows);
  // Row `row` of the last decode, as llama_get_logits_ith() returns it. Valid until the next
  // decode.
  float *row(llama_context *context, int32_t row) const;
  // Copies the logits after all, so that llama.cpp's own functions find them too.
  void copy();

private:
  // Replaces the buffer of the graph's output: a copy of it with another get_tensor.
  struct Buffer : ggml_backend_buffer {
    LogitsInPlace *owner;
  };

  static bool on_node(ggml_tensor *node, bool ask, void *self);
  static void read(ggml_backend_buffer_t buffer, const ggml_tensor *tensor, void *to, size_t offset, size_t size);

  Buffer buffer{};
  size_t vocab_size = 0;
  size_t expected = 0; // bytes
  float *from = nullptr; // null once copied
  void *to = nullptr;
};

} // namespace recua
