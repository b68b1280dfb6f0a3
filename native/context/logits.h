// Logits read where they were computed. llama.cpp copies them out of its graph after each decode: a
// row of a large vocabulary is half a megabyte or more, copied by one thread while the others wait,
// and mostly looked at once. On the CPU they can be read in place.
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

  // Before the context is made, which must not outlive this. Without effect where a GPU may
  // compute.
  void attach(llama_context_params &params, const llama_vocab *vocab);
  // Before a decode: all its `rows` want logits, so that nothing else is computed after them. 0:
  // llama.cpp copies.
  void expect(size_t rows);
  // Of row `row` of the last decode, as llama_get_logits_ith() would give it. Valid until the next
  // decode.
  float *row(llama_context *context, int32_t row) const;
  // From here on llama.cpp's own functions find the logits, too.
  void copy();

private:
  // What the graph's output says that its memory is: the same, but for how it is read.
  struct Buffer : ggml_backend_buffer {
    LogitsInPlace *owner;
  };

  static bool on_node(ggml_tensor *node, bool ask, void *self);
  static void read(ggml_backend_buffer_t buffer, const ggml_tensor *tensor, void *to, size_t offset, size_t size);

  Buffer buffer{};
  size_t vocab_size = 0;
  size_t expected = 0; // bytes
  float *from = nullptr; // not copied yet
  void *to = nullptr;
};

} // namespace recua
