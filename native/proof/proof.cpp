// Checks that the loaded CPU backend computes correctly: runs operations that a model needs and
// compares them with plain code. One family of kernels per call, because a broken one may end the
// process, and the caller has to know which one it was. Everything runs on the calling thread.
#include "proof/proof.h"

#include "attention/work.h"
#include "matmul/work.h"
#include "proof/cpu.h"

#include <sstream>

namespace recua::proof {

namespace {

ggml_type type_named(const std::string &name) {
  for (int type = 0; type < GGML_TYPE_COUNT; type++) {
    const char *known = ggml_type_name(static_cast<ggml_type>(type));
    if (known != nullptr && name == known) return static_cast<ggml_type>(type);
  }
  throw CodedError("invalid_argument", "Expected a type such as q4_K, got " + name + ".");
}

void check(const std::string &family) {
  std::istringstream words(family);
  std::string kind, first, second, third;
  words >> kind >> first >> second >> third;
  const Cpu cpu;
  if (kind == "elements") return check_elements(cpu);
  if (kind == "products") return check_products(cpu, nullptr, type_named(first));
  if (kind == "own-products") return check_products(cpu, &matmul::kernels().named(first), type_named(second));
  if (kind == "experts") return check_experts(cpu, type_named(first));
  if (kind == "attention") {
    check_store(cpu, type_named(first));
    check_store(cpu, type_named(second));
    return check_attention(cpu, nullptr, type_named(first), type_named(second));
  }
  if (kind == "own-attention") return check_attention(cpu, &attention::kernels().named(first), type_named(second), type_named(third));
  throw CodedError("invalid_argument", "Expected a family of kernels, got " + family + ".");
}

} // namespace

Napi::Value run(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const std::string family = info[0].As<Napi::String>().Utf8Value();
    try {
      check(family);
      return Napi::String::New(info.Env(), "");
    } catch (const Wrong &wrong) {
      return Napi::String::New(info.Env(), wrong.what());
    }
  });
}

} // namespace recua::proof
