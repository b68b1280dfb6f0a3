// The addon's whole surface on one page; src/addon/addon.ts is its TypeScript twin. The addon deals
// in tokens, bytes and KV memory: no HTTP, no stop strings, and no roles beyond those that a chat
// template needs. Lifetime: a Model owns its contexts, embedders and samplers; close() is explicit
// and waits for work in flight. JavaScript validates numbers; C++ refuses those that are fatal.
#pragma once

#include "js.h"
#include "thread/worker.h"
#include "chat.h"
#include "chat/chat_prompt.h"
#include "sampling/choice.h"
#include "sampling/constraint.h"
#include "context/draft.h"
#include "llama.h"
#include "context/logits.h"
#include "sampling/logprobs.h"
#include "sampling.h"
#include "sampling/thoughts.h"
#include "chat/templates.h"
#include "model/history.h"
#include "model/tokens.h"

#include <atomic>
#include <future>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace recua {

// One per JS environment (main thread or worker thread): the constructors of the classes.
struct AddonData {
  Napi::FunctionReference model, context, embedder, sampler, parser;
  bool log_hook = false; // log.cpp cleans up after this environment
  // Makes a JS object of class `constructor` around `state`.
  template <typename State>
  static Napi::Object wrap(Napi::Env env, const Napi::FunctionReference &constructor, std::shared_ptr<State> state) {
    return constructor.New({Napi::External<std::shared_ptr<State>>::New(env, &state)});
  }
};

// A loaded model. Freed when its last holder releases it; that fulfills `released`.
struct ModelState {
  llama_model *model = nullptr;
  const llama_vocab *vocab = nullptr;
  std::string path;
  std::promise<void> released;
  bool has_weights = true; // else only a vocabulary
  std::mutex templates_mutex; // guards `templates`
  std::list<std::pair<std::string, std::shared_ptr<Templates>>> templates; // by source, most recent first

  GrammarCache grammars;

  // Any thread. The tokens that end a generation. The vocabulary is searched once.
  const std::vector<llama_token> &end_tokens();
  // Any thread. The tokens to find in a text before all others; made at the first call.
  const Specials &special_tokens();
  // Any thread. Made at the first call.
  const LengthBound &length_bound();
  // Any thread. Made at the first call.
  History &history();
  // Any thread. The compiled template `source`; '' is the model file's own template.
  std::shared_ptr<Templates> chat_templates(const std::string &source);
  // Any thread. The message for outputs that are not numbers. It omits the folder, because clients
  // see the message.
  std::string damaged() const {
    return "The outputs of " + path.substr(path.find_last_of("/\\") + 1) +
           " are not numbers, so the file is damaged. Check the file with recua show --verify, then download it again.";
  }
  ~ModelState();

private:
  std::once_flag specials_made;
  std::unique_ptr<Specials> specials;
  std::once_flag history_made;
  std::unique_ptr<History> chats;
  std::once_flag bound_found;
  std::unique_ptr<LengthBound> bound;
  std::once_flag ends_found;
  std::vector<llama_token> ends;
};

// The KV of one sequence, copied out of the context.
struct Stash {
  std::unique_ptr<uint8_t[]> bytes;
  size_t size = 0;
};

// All stashes of one context, by number. Any thread: the compute thread fills and uses stashes, the
// JS thread reads and writes their bytes for files. JS finishes writing a stash before it uses the
// number elsewhere.
class Stashes {
public:
  int32_t add(Stash stash); // never 0
  std::shared_ptr<Stash> find(int32_t id);
  bool erase(int32_t id);
  void clear();

private:
  std::mutex mutex;
  std::unordered_map<int32_t, std::shared_ptr<Stash>> stashes;
  int32_t last = 0;
};

// A llama_context and its turns on the compute thread: the common part of contexts and embedders.
class ContextCore : public std::enable_shared_from_this<ContextCore> {
public:
  ContextCore(Napi::Env env, std::shared_ptr<ModelState> model);
  ~ContextCore();

  // Posts work to the compute thread. After close() the promise is rejected with `closed`.
  Napi::Promise run(Napi::Env env, const char *fallback, std::function<void()> work,
                    std::function<Napi::Value(Napi::Env)> convert);
  // Like run(), for long work: calls `slice` until it returns false. Other contexts may compute
  // between two slices.
  Napi::Promise run_slices(Napi::Env env, const char *fallback, std::function<bool()> slice,
                           std::function<Napi::Value(Napi::Env)> convert);
  // From such work: whether another context is waiting for its turn.
  bool contended() const { return worker.contended(); }
  // Compute thread, from such work: calls `what` on the JS thread while the work goes on.
  void tell(std::function<void(Napi::Env)> what) { worker.tell(std::move(what)); }
  // JS thread. Waits for the step in flight, then frees the context and releases the model.
  // Idempotent.
  void close(Napi::Env env, std::function<void(Napi::Env)> done);
  Napi::Promise close(Napi::Env env);
  // From now on, work waits for its turn at `cores` cores (thread/machine_turn.h). With an empty
  // path it never waits.
  void compute_in_turn(const std::string &turn_file, int32_t cores);
  // Compute thread. Creates the llama_context; throws CodedError. `own_…`:
  // which nodes Recua computes itself (accel/accel.h).
  void open(llama_context_params params, bool own_attention, bool own_matmul);
  // Compute thread. Calls llama_decode. If it returns 2 (interrupted), the errors that llama.cpp
  // logged for that go to the log as debug lines.
  int32_t decode(const llama_batch &batch);

  std::shared_ptr<ModelState> model; // null once closed
  LogitsInPlace logits; // for contexts that generate
  llama_context *context = nullptr;
  std::atomic<bool> interrupted{false}; // the backend polls it while it computes
  std::atomic<uint64_t> polls{0};       // how often it did, which shows that it is alive
  std::atomic<double> copy_ms{0};       // what the last copy of a sequence's KV took
  std::atomic<bool> paused{false};      // the step in flight is the last of its run
  bool closed = false;
  Stashes stashes;
  std::unique_ptr<DraftCosts> draft_costs; // null if guesses are not evaluated
  size_t most_outputs = 1;
  int32_t threads = 1; // upper limits for steps of one row, and of more
  int32_t threads_batch = 1;
  bool on_devices = false; // GPUs compute all layers
  double rows_per_ms = 0; // of the last embedding pass; 0 before the first

private:
  std::vector<std::function<void(Napi::Env)>> waiting_for_close;
  Worker worker;
};

// Makes repeated tokens less likely, by their counts among the last tokens, prompt included.
struct Penalties {
  int32_t last_n = 0;
  float repeat = 1, frequency = 0, presence = 0;

  bool active() const { return last_n > 0 && (repeat != 1 || frequency != 0 || presence != 0); }
  void accept(llama_token token);
  void apply(float *logits) const;

  std::vector<llama_token> recent = {}; // a ring buffer
  size_t next = 0;
  std::unordered_map<llama_token, int32_t> counts = {};
};

// The parts that sample for one request; made on a pool thread. Either llama.cpp's chain or
// `choice` draws the token.
struct SamplerParts {
  common_sampler_ptr chain;
  std::unique_ptr<Choice> choice;
  std::unique_ptr<Constraint> constraint;
  std::unique_ptr<Drafter> drafter; // null if guesses are not wanted
  std::unique_ptr<Thoughts> thoughts; // null if nothing can end them
  std::vector<llama_logit_bias> biases;
  Penalties penalties;
  std::unique_ptr<Logprobs> logprobs;      // null if not requested
  std::vector<llama_token> ends;           // end tokens to hold back
  int32_t before_end = 0;                  // tokens that must come before an end token

  SamplerParts() = default;
  // `draws_by_chain`: the chain draws, whatever the parameters. `by_chain`: the chain also applies
  // the grammar.
  SamplerParts(const std::shared_ptr<ModelState> &model, common_params_sampling &params,
               const std::vector<llama_token> &history, bool draws_by_chain, bool by_chain, const volatile int32_t *cancelled);
};

// The sampler state of one sequence. The compute thread uses it during a step, the JS thread at all
// other times.
struct SamplerState {
  std::shared_ptr<ModelState> model;
  SamplerParts parts;
  uint32_t seed = 0;
  std::atomic<bool> closed{false};

  // The compute thread or a thread of its team. Reads and changes the logits of row `row` of the
  // last decode, picks a token and accepts it. `threads` threads may share the row. Throws on
  // failure. Returns `undecided` if the grammar needs more work than other sequences should wait
  // for: then decide() returns the token, and no step may use the sampler before that.
  llama_token sample(llama_context *context, int32_t row, float *logits, int32_t threads);
  static constexpr llama_token undecided = -3;
  // Used in place of sample() for a row inside the prompt: records how likely its known next token
  // was.
  void score(const float *logits, llama_token token, int32_t threads);
  // Pool thread. Call once for each undecided token.
  llama_token decide();
  // llama.cpp's chain with its own grammar (only tests request that) or without a grammar.
  bool by_chain() const { return parts.chain != nullptr && !parts.constraint; }
  const Drafter *drafter() const { return closed ? nullptr : parts.drafter.get(); }
  // JS thread. False if the sampler was not made with that option.
  bool end_thinking() const;
  // Random numbers drawn for the tokens so far, without an undecided one; -1 if llama.cpp's chain
  // draws, because its state cannot be read.
  int32_t draws() const { return parts.choice ? static_cast<int32_t>(held.empty() ? parts.choice->draws() : draws_before) : -1; }
  // Pool thread, before any step. Continues after `tokens`, which another sampler with the same
  // options produced with `draws` random numbers. Throws if the chain draws or the grammar does not
  // allow the tokens.
  void resume(const std::vector<llama_token> &tokens, int32_t draws);
  // JS thread, when no step can use it any more.
  void release();

private:
  llama_token sample_by_chain(llama_context *context, int32_t row, float *logits);
  void add_biases(float *logits) const;
  llama_token sample_own(float *logits, int32_t threads);
  int64_t find(float *logits, size_t count, int32_t threads);
  void accept(llama_token token);
  void came(llama_token token);
  void hold_ends(float *logits);
  bool give_ends_back(float *logits);
  llama_token force(const float *logits);
  int64_t pick(float *logits, size_t count, int32_t threads);
  int64_t pick_allowed(float *logits, size_t count, Effort &work);
  int64_t pick_masked(const Grammar::Mask &mask, const float *logits, size_t count);
  llama_token take(int64_t found, const float *logits, size_t count);

  std::mutex deciding; // held by decide()
  std::vector<float> end_logits; // logits of the end tokens while they are held back
  std::vector<float> held; // the logits of an undecided token's row
  llama_token held_winner = -1; // the token that would win without the grammar
  uint32_t draws_before = 0; // random numbers drawn before the last row
};

// --- causal.cpp
// True if each token sees only the tokens before it, which generation requires.
bool is_causal(const llama_model *model);

// --- model.cpp
// A value of the file's metadata; empty if there is none.
std::string metadata_value(const llama_model *model, const std::string &key);

class Model : public Napi::ObjectWrap<Model> {
public:
  static Napi::Function define(Napi::Env env);
  explicit Model(const Napi::CallbackInfo &info);
  static Napi::Value load(const Napi::CallbackInfo &info);

private:
  static Napi::Value start_load(Napi::Env env, const Options &options);
  Napi::Value metadata(const Napi::CallbackInfo &info);
  Napi::Value chat_template(const Napi::CallbackInfo &info);
  Napi::Value has_rank_head(const Napi::CallbackInfo &info);
  Napi::Value tokenize(const Napi::CallbackInfo &info);
  Napi::Value detokenize(const Napi::CallbackInfo &info);
  Napi::Value piece(const Napi::CallbackInfo &info);
  Napi::Value pieces(const Napi::CallbackInfo &info);
  Napi::Value create_context(const Napi::CallbackInfo &info);
  Napi::Value create_embedder(const Napi::CallbackInfo &info);
  Napi::Value create_sampler(const Napi::CallbackInfo &info);      // sampler.cpp
  Napi::Value apply_chat_template(const Napi::CallbackInfo &info); // chat.cpp
  Napi::Value create_parser(const Napi::CallbackInfo &info);       // parser.cpp
  Napi::Value prepare_chat(const Napi::CallbackInfo &info);        // prepare.cpp
  Napi::Value remember(const Napi::CallbackInfo &info);            // prepare.cpp
  Napi::Value remembers(const Napi::CallbackInfo &info);           // prepare.cpp
  Napi::Value forget(const Napi::CallbackInfo &info);              // prepare.cpp
  Napi::Value limit_grammars(const Napi::CallbackInfo &info); // sampler.cpp
  Napi::Value close(const Napi::CallbackInfo &info);

  // The state; throws or rejects with `closed`.
  std::shared_ptr<ModelState> open(Napi::Env env) const;
  // An empty sampler state, which is released before the model.
  std::shared_ptr<SamplerState> new_sampler(Napi::Env env);

  std::shared_ptr<ModelState> state;
  std::vector<std::weak_ptr<ContextCore>> contexts;
  std::vector<std::weak_ptr<SamplerState>> samplers;
  Napi::ObjectReference closing; // the promise of the first close()
};

// --- context.cpp, step.cpp, kv.cpp
// True if any range of a sequence can be cut out or copied: plain attention over the whole context.
bool is_plain_attention(const llama_model *model);

class Context : public Napi::ObjectWrap<Context> {
public:
  static Napi::Function define(Napi::Env env);
  explicit Context(const Napi::CallbackInfo &info);
  static Napi::Promise create(Napi::Env env, const std::shared_ptr<ContextCore> &core, const Options &options);

private:
  Napi::Value steps(const Napi::CallbackInfo &info); // step.cpp
  Napi::Value copy_sequence(const Napi::CallbackInfo &info);
  Napi::Value remove_sequence(const Napi::CallbackInfo &info);
  Napi::Value stash(const Napi::CallbackInfo &info, uint32_t flags);
  Napi::Value checkpoint_sequence(const Napi::CallbackInfo &info);
  Napi::Value roll_back_sequence(const Napi::CallbackInfo &info);
  Napi::Value stash_sequence(const Napi::CallbackInfo &info);
  Napi::Value unstash_sequence(const Napi::CallbackInfo &info);
  Napi::Value drop_stash(const Napi::CallbackInfo &info);
  Napi::Value create_stash(const Napi::CallbackInfo &info);
  Napi::Value read_stash(const Napi::CallbackInfo &info);
  Napi::Value write_stash(const Napi::CallbackInfo &info);
  Napi::Value pause(const Napi::CallbackInfo &info);
  Napi::Value abort(const Napi::CallbackInfo &info);
  Napi::Value copy_ms(const Napi::CallbackInfo &info);
  Napi::Value polls(const Napi::CallbackInfo &info);
  Napi::Value close(const Napi::CallbackInfo &info);

  std::shared_ptr<ContextCore> core;
};

// --- embed.cpp
class Embedder : public Napi::ObjectWrap<Embedder> {
public:
  static Napi::Function define(Napi::Env env);
  explicit Embedder(const Napi::CallbackInfo &info);
  static Napi::Promise create(Napi::Env env, const std::shared_ptr<ContextCore> &core, const Options &options);

private:
  Napi::Value polls(const Napi::CallbackInfo &info);
  Napi::Value embed(const Napi::CallbackInfo &info);
  Napi::Value close(const Napi::CallbackInfo &info);

  std::shared_ptr<ContextCore> core;
  int32_t context_size = 0; // longest input, in tokens
};

// --- sampler.cpp
class Sampler : public Napi::ObjectWrap<Sampler> {
public:
  static Napi::Function define(Napi::Env env);
  explicit Sampler(const Napi::CallbackInfo &info);
  // Wraps parts that were made on a pool thread; throws if the model was closed in the meantime.
  static Napi::Object wrap(Napi::Env env, const std::shared_ptr<SamplerState> &state, SamplerParts parts, uint32_t seed);
  std::shared_ptr<SamplerState> state;

private:
  Napi::Value decide(const Napi::CallbackInfo &info);
  Napi::Value logprobs(const Napi::CallbackInfo &info);
  Napi::Value end_thinking(const Napi::CallbackInfo &info);
  Napi::Value draws(const Napi::CallbackInfo &info);
  Napi::Value resume(const Napi::CallbackInfo &info);
  Napi::Value close(const Napi::CallbackInfo &info);
};

// --- parser.cpp
class Parser : public Napi::ObjectWrap<Parser> {
public:
  static Napi::Function define(Napi::Env env);
  explicit Parser(const Napi::CallbackInfo &info);

private:
  Napi::Value parse(const Napi::CallbackInfo &info);
  Napi::Value message(const Napi::CallbackInfo &info);
  Napi::Value close(const Napi::CallbackInfo &info);

  std::shared_ptr<AnswerShape> answer; // its shape is null after close()
  common_chat_parser_params params;
  common_chat_msg current;
  std::vector<std::string> call_ids;
  std::vector<bool> call_announced;
};

// --- log.cpp
// last_errors(): the errors that llama.cpp logged on this thread since clear_errors(), for the
// message of a failed load.
namespace log {
Napi::Value set_sink(const Napi::CallbackInfo &info);
void install();
void clear_errors();
std::string last_errors();

// Once `asked` is true, holds back the errors and warnings that this thread logs, until it is known
// whether they only report the interruption that was asked for. At most one per thread at a time.
class HeldTrouble {
public:
  explicit HeldTrouble(const std::atomic<bool> &asked);
  ~HeldTrouble(); // lines still held go to the log unchanged
  HeldTrouble(const HeldTrouble &) = delete;
  HeldTrouble &operator=(const HeldTrouble &) = delete;

  void expected(); // the held lines are expected: they go to the log as debug lines
};
} // namespace log

} // namespace recua
