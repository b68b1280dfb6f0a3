// The device through which llama.cpp offers graph nodes to Recua. llama.cpp makes a backend
// of every ACCEL device for each context, and asks whether it wants a node before it divides the
// graph. This one refuses all nodes, but first turns those that it can compute into custom
// operations, which the CPU backend then calls.
#include "accel/accel.h"
#include "attention/work.h"
#include "matmul/work.h"

#include "ggml-backend-impl.h"

#include <optional>

namespace recua::accel {

namespace {

struct Settings {
  int32_t threads = 0;
  bool attention = false, matmul = false;
};
thread_local Settings wanted;

const char *name(ggml_backend_dev_t) { return "recua"; }

// The instance of one context. The registered device has none, and no work.
struct Own {
  Own(ggml_backend_dev_t registered, const Settings &settings) : device(*registered), backend{} {
    const attention::Kernel *for_attention = settings.attention ? attention::kernels().best() : nullptr;
    const matmul::Kernel *for_matmul = settings.matmul ? matmul::kernels().best() : nullptr;
    if (for_attention != nullptr) attention.emplace(*for_attention, settings.threads);
    if (for_matmul != nullptr) matmul.emplace(*for_matmul, settings.threads);
    if (attention || matmul) device.context = this;
  }
  void offer(ggml_tensor *node) {
    if (node->op == GGML_OP_FLASH_ATTN_EXT && attention) attention->take(node);
    if (node->op == GGML_OP_MUL_MAT && matmul) matmul->take(node);
  }
  ggml_backend_device device;
  ggml_backend backend;
  std::optional<attention::Work> attention;
  std::optional<matmul::Work> matmul;
};

ggml_backend_i backend_functions() {
  ggml_backend_i functions{};
  functions.get_name = [](ggml_backend_t backend) { return name(backend->device); };
  functions.free = [](ggml_backend_t backend) { delete static_cast<Own *>(backend->context); };
  functions.graph_compute = [](ggml_backend_t, ggml_cgraph *) { return GGML_STATUS_FAILED; }; // it never gets nodes
  return functions;
}

ggml_guid_t guid() {
  static ggml_guid id = {0x52, 0x65, 0x63, 0x75, 0x61, 0x41, 0x74, 0x74, 0x9e, 0x3b, 0x61, 0x0c, 0x7d, 0x58, 0x21, 0xf4};
  return &id;
}

ggml_backend_device_i device_functions() {
  ggml_backend_device_i functions{};
  functions.get_name = name;
  functions.get_description = name;
  functions.get_memory = [](ggml_backend_dev_t, size_t *free, size_t *total) { *free = *total = 0; };
  functions.get_type = [](ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_ACCEL; };
  functions.get_props = [](ggml_backend_dev_t device, ggml_backend_dev_props *props) {
    props->name = props->description = name(device);
    props->type = GGML_BACKEND_DEVICE_TYPE_ACCEL;
  };
  functions.init_backend = [](ggml_backend_dev_t registered, const char *) -> ggml_backend_t {
    auto *own = new Own(registered, wanted);
    own->backend = {guid(), backend_functions(), &own->device, own};
    return &own->backend;
  };
  functions.get_buffer_type = [](ggml_backend_dev_t) { return ggml_backend_cpu_buffer_type(); };
  functions.supports_op = [](ggml_backend_dev_t device, const ggml_tensor *node) {
    if (device->context != nullptr) static_cast<Own *>(device->context)->offer(const_cast<ggml_tensor *>(node));
    return false;
  };
  functions.supports_buft = [](ggml_backend_dev_t, ggml_backend_buffer_type_t type) { return ggml_backend_buft_is_host(type); };
  return functions;
}

ggml_backend_reg_t registration() {
  static ggml_backend_reg reg{};
  static ggml_backend_device device{device_functions(), &reg, nullptr};
  static const bool made = [] {
    reg.api_version = GGML_BACKEND_API_VERSION;
    reg.iface.get_name = [](ggml_backend_reg_t) { return "recua"; };
    reg.iface.get_device_count = [](ggml_backend_reg_t) -> size_t { return 1; };
    reg.iface.get_device = [](ggml_backend_reg_t, size_t) { return &device; };
    reg.iface.get_proc_address = [](ggml_backend_reg_t, const char *) -> void * { return nullptr; };
    return true;
  }();
  (void)made;
  return &reg;
}

} // namespace

void install() {
  if (!attention::kernels().all().empty() || !matmul::kernels().all().empty()) ggml_backend_register(registration());
}

bool is_own(ggml_backend_reg_t reg) { return reg == registration(); }

Wanted::Wanted(int32_t threads, bool attention, bool matmul) { wanted = {threads, attention, matmul}; }
Wanted::~Wanted() { wanted = {}; }

} // namespace recua::accel
