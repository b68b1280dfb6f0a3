// KV operations between two steps, on the compute thread: copy, cut, stash in memory. The JS thread
// reads and writes the bytes of a stash, piece by piece, for files.
#include "addon.h"

#include <chrono>
#include <cstring>
#include <limits>
#include <new>

namespace recua {

bool is_plain_attention(const llama_model *model) {
  return !llama_model_is_recurrent(model) && !llama_model_is_hybrid(model) && llama_model_n_swa(model) == 0;
}

int32_t Stashes::add(Stash stash) {
  auto kept = std::make_shared<Stash>(std::move(stash));
  std::lock_guard<std::mutex> lock(mutex);
  stashes.emplace(++last, std::move(kept));
  return last;
}

std::shared_ptr<Stash> Stashes::find(int32_t id) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = stashes.find(id);
  return found == stashes.end() ? nullptr : found->second;
}

bool Stashes::erase(int32_t id) {
  std::lock_guard<std::mutex> lock(mutex);
  return stashes.erase(id) > 0;
}

void Stashes::clear() {
  std::lock_guard<std::mutex> lock(mutex);
  stashes.clear();
}

namespace {

// Runs a KV operation that returns true or false on the compute thread.
Napi::Promise run_yes_no(Napi::Env env, const std::shared_ptr<ContextCore> &core,
                         std::function<bool(llama_context *)> operation) {
  auto answer = std::make_shared<bool>(false);
  return core->run(
      env, "generation_failed", [core, answer, operation = std::move(operation)] { *answer = operation(core->context); },
      [answer](Napi::Env env) { return Napi::Boolean::New(env, *answer); });
}

// Measures a copy on the compute thread, without its wait for that thread.
class CopyTime {
public:
  explicit CopyTime(ContextCore &core) : core(core) {}
  ~CopyTime() { core.copy_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

private:
  using Clock = std::chrono::steady_clock;
  ContextCore &core;
  const Clock::time_point start = Clock::now();
};

// llama.cpp ends the process on other sequences. Throws CodedError.
void check_sequence(llama_context *context, llama_seq_id sequence) {
  const auto count = static_cast<int64_t>(llama_n_seq_max(context));
  if (sequence >= 0 && sequence < count) return;
  throw CodedError("invalid_argument", "Expected a sequence from 0 to " + std::to_string(count - 1) + ", got " + std::to_string(sequence) + ".");
}

// All of a sequence's KV, or only the part that cannot be cut at its end: sliding windows and
// recurrent states.
enum Extent : llama_state_seq_flags { whole = LLAMA_STATE_SEQ_FLAGS_NONE, uncut = LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY };

const double any_size = std::numeric_limits<double>::infinity();

// The state as bytes, valid as long as the context lives; only its size if that is more than
// `most_bytes`. The memory is not cleared first, because all of it is written.
Stash read_state(llama_context *context, llama_seq_id sequence, Extent extent = whole, double most_bytes = any_size) {
  check_sequence(context, sequence);
  Stash stash;
  stash.size = llama_state_seq_get_size_ext(context, sequence, extent);
  if (static_cast<double>(stash.size) > most_bytes) return stash;
  stash.bytes.reset(new uint8_t[stash.size]);
  stash.size = llama_state_seq_get_data_ext(context, stash.bytes.get(), stash.size, sequence, extent);
  return stash;
}

// Replaces the sequence's state. False if it does not fit.
bool write_state(llama_context *context, llama_seq_id sequence, const Stash &stash, Extent extent = whole) {
  check_sequence(context, sequence);
  return stash.size > 0 && llama_state_seq_set_data_ext(context, stash.bytes.get(), stash.size, sequence, extent) > 0;
}

} // namespace

Napi::Value Context::copy_sequence(const Napi::CallbackInfo &info) {
  const int32_t from = info[0].ToNumber();
  const int32_t to = info[1].ToNumber();
  const int32_t length = info[2].ToNumber();
  return run_yes_no(info.Env(), core, [=, core = core](llama_context *context) {
    if (!is_plain_attention(llama_get_model(context))) return false;
    const CopyTime time(*core);
    // llama_memory_seq_cp across streams copies the whole stream and aborts on a part of one; the
    // state functions move just the cells in use.
    try {
      if (!write_state(context, to, read_state(context, from))) return false;
    } catch (const std::bad_alloc &) {
      return false;
    }
    return llama_memory_seq_rm(llama_get_memory(context), to, length, -1);
  });
}

Napi::Value Context::copy_ms(const Napi::CallbackInfo &info) {
  return Napi::Number::New(info.Env(), core->copy_ms);
}

Napi::Value Context::stash_sequence(const Napi::CallbackInfo &info) {
  return stash(info, whole);
}

Napi::Value Context::checkpoint_sequence(const Napi::CallbackInfo &info) {
  return stash(info, uncut);
}

Napi::Value Context::stash(const Napi::CallbackInfo &info, uint32_t flags) {
  const int32_t sequence = info[0].ToNumber();
  const double most_bytes = info[1].IsUndefined() ? any_size : info[1].ToNumber().DoubleValue();
  const auto extent = static_cast<Extent>(flags);
  struct Made {
    int32_t id = 0;
    size_t size = 0;
  };
  auto made = std::make_shared<Made>();
  return core->run(
      info.Env(), "generation_failed",
      [core = core, made, sequence, extent, most_bytes] {
        check_sequence(core->context, sequence);
        if (llama_memory_seq_pos_max(llama_get_memory(core->context), sequence) < 0) return; // an empty sequence
        const CopyTime time(*core);
        Stash stash = read_state(core->context, sequence, extent, most_bytes);
        made->size = stash.size;
        if (!stash.bytes || stash.size == 0) return;
        made->id = core->stashes.add(std::move(stash));
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
    const auto stash = core->stashes.find(id);
    const CopyTime time(*core);
    if (!stash || !write_state(context, sequence, *stash)) return false;
    llama_memory_t memory = llama_get_memory(context);
    // The bytes of a file may hold fewer tokens than it says, or other positions.
    const bool whole = llama_memory_seq_rm(memory, sequence, length, -1) && llama_memory_seq_pos_max(memory, sequence) == length - 1;
    if (whole && (!is_plain_attention(llama_get_model(context)) || llama_memory_seq_pos_min(memory, sequence) == 0)) return true;
    llama_memory_seq_rm(memory, sequence, -1, -1);
    return false;
  });
}

// The sequence must continue from the checkpoint, or hold a stash of a sequence that did.
Napi::Value Context::roll_back_sequence(const Napi::CallbackInfo &info) {
  const int32_t id = info[0].ToNumber();
  const int32_t sequence = info[1].ToNumber();
  const int32_t length = info[2].ToNumber();
  return run_yes_no(info.Env(), core, [=, core = core](llama_context *context) {
    const auto checkpoint = core->stashes.find(id);
    if (!checkpoint || !write_state(context, sequence, *checkpoint, uncut)) return false;
    return llama_memory_seq_rm(llama_get_memory(context), sequence, length, -1);
  });
}

Napi::Value Context::drop_stash(const Napi::CallbackInfo &info) {
  const int32_t id = info[0].ToNumber();
  return run_yes_no(info.Env(), core, [id, core = core](llama_context *) { return core->stashes.erase(id); });
}

Napi::Value Context::remove_sequence(const Napi::CallbackInfo &info) {
  const int32_t sequence = info[0].ToNumber();
  const int32_t from = info[1].ToNumber();
  const int32_t to = info[2].ToNumber();
  return run_yes_no(info.Env(), core, [=](llama_context *context) {
    check_sequence(context, sequence);
    return llama_memory_seq_rm(llama_get_memory(context), sequence, from, to);
  });
}

namespace {

// The arguments of readStash() or writeStash(): a part of a stash, and the array to copy to or
// from. find_copy() throws if they are invalid.
struct Copy {
  std::shared_ptr<Stash> stash;
  uint8_t *in_stash;
  uint8_t *in_array;
  size_t size;
};

Copy find_copy(const Napi::CallbackInfo &info, ContextCore &core) {
  if (core.closed) throw CodedError("closed", "The context is closed.");
  const auto stash = core.stashes.find(info[0].ToNumber());
  const double offset = info[1].ToNumber();
  auto array = info[2].As<Napi::Uint8Array>();
  const size_t size = array.ByteLength();
  if (!stash || !(offset >= 0 && offset <= static_cast<double>(stash->size)) || size > stash->size - static_cast<size_t>(offset)) {
    throw CodedError("invalid_argument", "Expected a part of a stash.");
  }
  return {stash, stash->bytes.get() + static_cast<size_t>(offset), array.Data(), size};
}

} // namespace

Napi::Value Context::create_stash(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    if (core->closed) throw CodedError("closed", "The context is closed.");
    const double size = info[0].ToNumber();
    if (!(size >= 0 && size < 9007199254740992.0)) throw CodedError("invalid_argument", "Expected the size of a stash in bytes.");
    Stash stash;
    stash.size = static_cast<size_t>(size);
    stash.bytes.reset(new (std::nothrow) uint8_t[stash.size]);
    return Napi::Number::New(info.Env(), stash.bytes ? core->stashes.add(std::move(stash)) : 0);
  });
}

Napi::Value Context::read_stash(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const Copy copy = find_copy(info, *core);
    if (copy.size > 0) std::memcpy(copy.in_array, copy.in_stash, copy.size);
    return info.Env().Undefined();
  });
}

Napi::Value Context::write_stash(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const Copy copy = find_copy(info, *core);
    if (copy.size > 0) std::memcpy(copy.in_stash, copy.in_array, copy.size);
    return info.Env().Undefined();
  });
}

} // namespace recua
