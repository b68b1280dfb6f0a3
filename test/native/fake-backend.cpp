// A ggml backend library for the tests: a "GPU" that uses the CPU's memory and the CPU backend, so
// that all of llama.cpp's offloading runs on a machine without a GPU. FAULT makes it one of the
// unusable libraries. Compiled by backends.ts beside this file.
#include "ggml-backend-impl.h"
#include "ggml-backend.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#ifndef DEVICES
#define DEVICES 2
#endif
#ifndef MEMORY_MIB
#define MEMORY_MIB 8192
#endif
// A fault of the table below; a macro, since -D takes no names.
#define FAULT_NONE 0
#define FAULT_ABORT 1
#define FAULT_HANG 2
#define FAULT_NULL 3
#define FAULT_VERSION 4
#define FAULT_SYMBOL 5
#define FAULT_SCORE 6
#define FAULT_EXIT 7
#ifndef FAULT
#define FAULT FAULT_NONE
#endif

#if FAULT == FAULT_ABORT
// Like a driver that meets something unexpected, before the first call.
__attribute__((constructor)) static void begin() {
  fprintf(stderr, "fake driver: no such device, giving up\n");
  abort();
}
#endif

#if FAULT == FAULT_SYMBOL
extern "C" int fake_function_that_no_library_has(void);
#endif

static ggml_backend_dev_t cpu() { return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU); }

static const ggml_backend_i backend_interface = {
    /* .get_name = */ [](ggml_backend_t) { return "FAKE"; },
    /* .free = */
    [](ggml_backend_t backend) {
      ggml_backend_free(static_cast<ggml_backend_t>(backend->context));
      delete backend;
    },
    nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
    /* .graph_compute = */
    [](ggml_backend_t backend, ggml_cgraph *graph) { return ggml_backend_graph_compute(static_cast<ggml_backend_t>(backend->context), graph); },
    nullptr, nullptr, nullptr,
};

static const char *const names[] = {"FAKE0", "FAKE1", "FAKE2"};
static const char *const ids[] = {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"};
static size_t index_of(ggml_backend_dev_t device) { return reinterpret_cast<size_t>(device->context); }

static size_t taken = 0; // a mebibyte for each backend, i.e. each context of this process

static void memory(ggml_backend_dev_t, size_t *free, size_t *total) {
  *total = static_cast<size_t>(MEMORY_MIB) << 20;
  *free = *total - std::min(*total, taken);
}

static const ggml_backend_device_i device_interface = {
    /* .get_name = */ [](ggml_backend_dev_t device) { return names[index_of(device)]; },
    /* .get_description = */ [](ggml_backend_dev_t) { return "A GPU that is none"; },
    /* .get_memory = */ memory,
    /* .get_type = */ [](ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_GPU; },
    /* .get_props = */
    [](ggml_backend_dev_t device, ggml_backend_dev_props *props) {
      props->name = names[index_of(device)];
      props->description = "A GPU that is none";
      props->type = GGML_BACKEND_DEVICE_TYPE_GPU;
      props->device_id = ids[index_of(device)];
      props->caps = {false, false, false, false};
      memory(device, &props->memory_free, &props->memory_total);
    },
    /* .init_backend = */
    [](ggml_backend_dev_t device, const char *) -> ggml_backend_t {
      taken += 1u << 20;
      static ggml_guid guid = {'r', 'e', 'c', 'u', 'a', ' ', 'f', 'a', 'k', 'e', ' ', 'g', 'p', 'u', ' ', ' '};
      return new ggml_backend{&guid, backend_interface, device, ggml_backend_dev_init(cpu(), nullptr)};
    },
    /* .get_buffer_type = */ [](ggml_backend_dev_t) { return ggml_backend_cpu_buffer_type(); },
    nullptr, nullptr,
    /* .supports_op = */ [](ggml_backend_dev_t, const ggml_tensor *op) { return ggml_backend_dev_supports_op(cpu(), op); },
    /* .supports_buft = */ [](ggml_backend_dev_t, ggml_backend_buffer_type_t type) { return ggml_backend_buft_is_host(type); },
    nullptr, nullptr, nullptr, nullptr,
};

static ggml_backend_device devices[3];

static const ggml_backend_reg_i registration_interface = {
    /* .get_name = */ [](ggml_backend_reg_t) { return "FAKE"; },
    /* .get_device_count = */ [](ggml_backend_reg_t) -> size_t { return DEVICES; },
    /* .get_device = */ [](ggml_backend_reg_t, size_t index) -> ggml_backend_dev_t { return &devices[index]; },
    nullptr,
};

extern "C" {

__attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init(void) {
  static ggml_backend_reg registration = {FAULT == FAULT_VERSION ? 9999 : GGML_BACKEND_API_VERSION, registration_interface, nullptr};
  for (size_t i = 0; i < 3; i++) devices[i] = {device_interface, &registration, reinterpret_cast<void *>(i)};
#if FAULT == FAULT_HANG
  for (;;) pause();
#elif FAULT == FAULT_NULL
  // As Vulkan's loader does with a driver that it cannot load.
  if (getenv("VK_LOADER_DEBUG")) {
    for (int i = 0; i < 2; i++) fprintf(stderr, "ERROR:            libX11.so.6: cannot open shared object file\n");
  }
  return nullptr;
#elif FAULT == FAULT_SYMBOL
  if (fake_function_that_no_library_has() != 0) return nullptr;
#elif FAULT == FAULT_EXIT
  printf("fake driver: this machine is not licensed\n");
  exit(0);
#endif
  return &registration;
}

#if FAULT == FAULT_SCORE
__attribute__((visibility("default"))) int ggml_backend_score(void) { return 0; }
#endif
}
