// A CPU library for the tests: that of the checkout, with a fault. Compiled by faulty.ts beside
// this file. FAULT is one of the table below; POINTS is the score with which it claims to suit this
// machine. With LINKED it overrides the library that an addon is linked with (LD_PRELOAD). Each
// initialization adds a line to the file named by the variable FAULTY_LOG.
#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <dlfcn.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#define FAULT_NONE 0
#define FAULT_ILLEGAL 1    // in products of five rows and more
#define FAULT_WRONG 2      // one number of products of F16
#define FAULT_HANG 3       // in products of F16
#define FAULT_LOAD 4       // when it is loaded
#define FAULT_ATTENTION 5  // one number of attention
#define FAULT_OWN 6        // one number of what Recua's own attention computed
#define FAULT_Q4_K 7       // products of Q4_K weights alone

#if FAULT == FAULT_LOAD
__attribute__((constructor)) static void begin() { raise(SIGILL); }
#endif

static ggml_status (*compute)(ggml_backend_t, ggml_cgraph *);

// Off by one percent.
static void spoil(ggml_tensor *node) {
  float *last = static_cast<float *>(node->data) + ggml_nelements(node) - 1;
  *last = *last * 1.01f + 0.05f;
}

static ggml_status compute_faulty(ggml_backend_t backend, ggml_cgraph *graph) {
  const ggml_status status = compute(backend, graph);
  for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
    ggml_tensor *node = ggml_graph_node(graph, i);
    const bool product = node->op == GGML_OP_MUL_MAT && node->src[0]->type == (FAULT == FAULT_Q4_K ? GGML_TYPE_Q4_K : GGML_TYPE_F16);
    if (FAULT == FAULT_ILLEGAL && product && node->ne[1] >= 5) raise(SIGILL);
    if ((FAULT == FAULT_WRONG || FAULT == FAULT_Q4_K) && product) spoil(node);
    if (FAULT == FAULT_HANG && product) for (;;) pause();
    if (FAULT == FAULT_ATTENTION && node->op == GGML_OP_FLASH_ATTN_EXT) spoil(node);
    if (FAULT == FAULT_OWN && node->op == GGML_OP_CUSTOM) spoil(node);
  }
  return status;
}

static ggml_backend_t (*make)(ggml_backend_dev_t, const char *);

static ggml_backend_t make_faulty(ggml_backend_dev_t device, const char *parameters) {
  ggml_backend_t backend = make(device, parameters);
  compute = backend->iface.graph_compute;
  backend->iface.graph_compute = compute_faulty;
  return backend;
}

static ggml_backend_reg_t spoiled(ggml_backend_reg_t reg) {
  ggml_backend_dev_t device = ggml_backend_reg_dev_get(reg, 0);
  if (device->iface.init_backend != make_faulty) {
    make = device->iface.init_backend;
    device->iface.init_backend = make_faulty;
  }
  if (const char *path = getenv("FAULTY_LOG")) {
    if (FILE *file = fopen(path, "a")) {
      fprintf(file, "%d\n", static_cast<int>(getpid()));
      fclose(file);
    }
  }
  return reg;
}

extern "C" {
#ifdef LINKED
__attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_cpu_reg(void) {
  using Reg = ggml_backend_reg_t (*)();
  return spoiled(reinterpret_cast<Reg>(dlsym(RTLD_NEXT, "ggml_backend_cpu_reg"))());
}
#else
__attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init(void) { return spoiled(ggml_backend_cpu_reg()); }
__attribute__((visibility("default"))) int ggml_backend_score(void) { return POINTS; }
#endif
}
