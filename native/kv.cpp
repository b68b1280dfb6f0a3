// What is done with the KV of sequences between two steps: copied, cut, moved, stashed in memory, turned into bytes for a file.
// Each runs on the compute thread.
#include "addon.h"

#include <cstring>

namespace recua {

bool is_plain_attention(const llama_model *model) {
  return !llama_model_is_recurrent(model) && !llama_model_is_hybrid(model) && llama_model_n_swa(model) == 0;
}

namespace {

// Runs a KV operation that answers yes or no on the compute thread.
Napi::Promise run_yes_no(Napi::Env env, const std::shared_ptr<ContextCore> &core,
                         std::function<bool(llama_context *)> operation) {
  auto answer = std::make_shared<bool>(false);
  return core->run(
      env, "generation_failed", [core, answer, operation = std::move(operation)] { *answer = operation(core->context); },
      [answer](Napi::Env env) { return Napi::Boolean::New(env, *answer); });
}

// The KV of a sequence as bytes, for as long as the context lives. Not cleared first: all of it is written.
Stash read_state(llama_context *context, llama_seq_id sequence) {
  Stash stash;
  stash.size = llama_state_seq_get_size_ext(context, sequence, LLAMA_STATE_SEQ_FLAGS_NONE);
  stash.bytes.reset(new uint8_t[stash.size]);
  stash.size =
      llama_state_seq_get_data_ext(context, stash.bytes.get(), stash.size, sequence, LLAMA_STATE_SEQ_FLAGS_NONE);
  return stash;
}

// Replaces what the sequence holds. False where it does not fit.
bool write_state(llama_context *context, llama_seq_id sequence, const Stash &stash) {
  return stash.size > 0 && llama_state_seq_set_data_ext(context, stash.bytes.get(), stash.size, sequence,
                                                        LLAMA_STATE_SEQ_FLAGS_NONE) > 0;
}

} // namespace

Napi::Value Context::copy_sequence(const Napi::CallbackInfo &info) {
  const int32_t from = info[0].ToNumber();
  const int32_t to = info[1].ToNumber();
  const int32_t length = info[2].ToNumber();
  return run_yes_no(info.Env(), core, [=](llama_context *context) {
    if (!is_plain_attention(llama_get_model(context))) return false;
    // llama_memory_seq_cp across streams copies the whole stream and aborts on a part of one; the state functions
    // move just the cells in use.
    try {
      if (!write_state(context, to, read_state(context, from))) return false;
    } catch (const std::bad_alloc &) {
      return false;
    }
    return llama_memory_seq_rm(llama_get_memory(context), to, length, -1);
  });
}

Napi::Value Context::stash_sequence(const Napi::CallbackInfo &info) {
  const int32_t sequence = info[0].ToNumber();
  struct Made {
    int32_t id = 0;
    size_t size = 0;
  };
  auto made = std::make_shared<Made>();
  return core->run(
      info.Env(), "generation_failed",
      [core = core, made, sequence] {
        if (llama_memory_seq_pos_max(llama_get_memory(core->context), sequence) < 0) return; // it holds nothing
        Stash stash = read_state(core->context, sequence);
        if (stash.size == 0) return;
        made->id = ++core->last_stash;
        made->size = stash.size;
        core->stashes.emplace(made->id, std::move(stash));
      },
      [made](Napi::Env env) {
        auto result = Napi::Object::New(env);
        result.Set("id", made->id);
        result.Set("sizeBytes", static_cast<double>(made->size));
        return result;
      });
}

Napi::Value Context::unstash_sequence(const Napi::CallbackInfo &info) {
  const int32_t id = info[0].ToNumber();
  const int32_t sequence = info[1].ToNumber();
  const int32_t length = info[2].ToNumber();
  return run_yes_no(info.Env(), core, [=, core = core](llama_context *context) {
    const auto found = core->stashes.find(id);
    if (found == core->stashes.end() || !write_state(context, sequence, found->second)) return false;
    return llama_memory_seq_rm(llama_get_memory(context), sequence, length, -1);
  });
}

Napi::Value Context::drop_stash(const Napi::CallbackInfo &info) {
  const int32_t id = info[0].ToNumber();
  return run_yes_no(info.Env(), core, [id, core = core](llama_context *) { return core->stashes.erase(id) > 0; });
}

Napi::Value Context::remove_sequence(const Napi::CallbackInfo &info) {
  const int32_t sequence = info[0].ToNumber();
  const int32_t from = info[1].ToNumber();
  const int32_t to = info[2].ToNumber();
  return run_yes_no(info.Env(), core, [=](llama_context *context) {
    return llama_memory_seq_rm(llama_get_memory(context), sequence, from, to);
  });
}

Napi::Value Context::shift_sequence(const Napi::CallbackInfo &info) {
  const int32_t sequence = info[0].ToNumber();
  const int32_t from = info[1].ToNumber();
  const int32_t to = info[2].ToNumber();
  const int32_t delta = info[3].ToNumber();
  return run_yes_no(info.Env(), core, [=](llama_context *context) {
    llama_memory_t memory = llama_get_memory(context);
    if (!llama_memory_can_shift(memory)) return false;
    llama_memory_seq_add(memory, sequence, from, to, delta);
    return true;
  });
}

namespace {

// A saved sequence begins with a checksum of the rest: llama.cpp trusts the counts inside.
uint64_t checksum(const uint8_t *bytes, size_t size) {
  uint64_t hash = 0xcbf29ce484222325; // FNV-1a
  for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001b3;
  return hash;
}

} // namespace

Napi::Value Context::save_sequence(const Napi::CallbackInfo &info) {
  const int32_t sequence = info[0].ToNumber();
  auto state = std::make_shared<std::vector<uint8_t>>();
  return core->run(
      info.Env(), "generation_failed",
      [core = core, state, sequence] {
        constexpr size_t head = sizeof(uint64_t);
        state->resize(head + llama_state_seq_get_size(core->context, sequence));
        const size_t size =
            llama_state_seq_get_data(core->context, state->data() + head, state->size() - head, sequence);
        state->resize(head + size);
        const uint64_t sum = checksum(state->data() + head, size);
        std::memcpy(state->data(), &sum, head);
      },
      [state](Napi::Env env) { return make_array(env, *state); });
}

Napi::Value Context::load_sequence(const Napi::CallbackInfo &info) {
  const int32_t sequence = info[0].ToNumber();
  auto state = std::make_shared<std::vector<uint8_t>>(copy_array<uint8_t>(info[1]));
  return run_yes_no(info.Env(), core, [=](llama_context *context) {
    uint64_t sum = 0;
    constexpr size_t head = sizeof sum;
    if (state->size() <= head) return false;
    std::memcpy(&sum, state->data(), head);
    const size_t size = state->size() - head;
    if (sum != checksum(state->data() + head, size)) return false;
    return llama_state_seq_set_data(context, state->data() + head, size, sequence) > 0;
  });
}

} // namespace recua
