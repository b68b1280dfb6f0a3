// The addon's whole surface on one page; src/addon/addon.ts is its TypeScript twin. Tokens, bytes
// and KV memory live here. No roles beyond what a chat template needs, no HTTP, no stop strings.
// Lifetime: a Model owns its contexts, embedders and samplers; close() is explicit and waits for
// work in flight. JS validates, C++ trusts: callers pass checked numbers.
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

// One per JS environment (main thread, worker thread): the classes' constructors.
struct AddonData {
  Napi::FunctionReference model, context, embedder, sampler, parser;
  bool log_hook = false; // log.cpp cleans up after this environment
  // A JS object of class `constructor` around `state`.
  template <typename State>
  static Napi::Object wrap(Napi::Env env, const Napi::FunctionReference &constructor, std::shared_ptr<State> state) {
    return constructor.New({Napi::External<std::shared_ptr<State>>::New(env, &state)});
  }
};

// A loaded model; freed when the last holder lets go, which fulfils `released`.
struct ModelState {
  llama_model *model = nullptr;
  const llama_vocab *vocab = nullptr;
  std::string path;
  std::promise<void> released;

  std::mutex templates_mutex; // guards `templates`
  std::list<std::pair<std::string, std::shared_ptr<Templates>>> templates; // by source, the last used first

  GrammarCache grammars;

  // Any thread. The tokens that end a generation: looked for once, among all.
  const std::vector<llama_token> &end_tokens();
  // Any thread. Tokens that are looked for in a text before the others; made at the first call.
  const Specials &special_tokens();
  // Any thread. Made at the first call.
  const LengthBound &length_bound();
  // Any thread. Made at the first call.
  History &history();
  // Any thread. Compiled templates of `source` ('' is the file's own).
  std::shared_ptr<Templates> chat_templates(const std::string &source);
  // Any thread. What to tell where outputs are no numbers; without the folder, since clients hear
  // it.
  std::string damaged() const {
    return "The outputs of " + path.substr(path.find_last_of("/\\") + 1) +
           " are not numbers, so its weights are damaged. Look with recua show --verify, and get the file again.";
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

// The KV of one sequence, outside the context.
struct Stash {
  std::unique_ptr<uint8_t[]> bytes;
  size_t size = 0;
};

// All of a context, by number. Any thread: the compute thread fills and uses them, JS reads and
// writes their bytes for files. A stash is written before its number is used elsewhere.
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

// A llama_context and its turns on the compute thread: what contexts and embedders have in common.
class ContextCore : public std::enable_shared_from_this<ContextCore> {
public:
  ContextCore(Napi::Env env, std::shared_ptr<ModelState> model);
  ~ContextCore();

  // Posts work to the compute thread; the promise is rejected with `closed` after close().
  Napi::Promise run(Napi::Env env, const char *fallback, std::function<void()> work,
                    std::function<Napi::Value(Napi::Env)> convert);
  // The same for work that is long: called again and again while it returns true, with other
  // contexts' work between.
  Napi::Promise run_slices(Napi::Env env, const char *fallback, std::function<bool()> slice,
                           std::function<Napi::Value(Napi::Env)> convert);
  // From such work: whether another context waits for its turn.
  bool contended() const { return worker.contended(); }
  // Thread, from such work: what is to happen on the JS thread meanwhile.
  void tell(std::function<void(Napi::Env)> what) { worker.tell(std::move(what)); }
  // JS thread. Waits for the step in flight, then frees the context and lets go of the model.
  // Idempotent.
  void close(Napi::Env env, std::function<void(Napi::Env)> done);
  Napi::Promise close(Napi::Env env);
  // From now on its work waits for its turn at that many cores (thread/machine_turn.h). An empty
  // path: it never waits.
  void compute_in_turn(const std::string &turn_file, int32_t cores);
  // Thread. Creates the llama_context; throws CodedError. `own_attention`: attention/attention.h.
  void open(llama_context_params params, bool own_attention = false);
  // Thread. llama_decode; where it gives 2 because it was interrupted, what llama.cpp says of it is
  // no error in the log.
  int32_t decode(const llama_batch &batch);

  std::shared_ptr<ModelState> model; // null once closed
  LogitsInPlace logits; // of contexts that generate
  llama_context *context = nullptr;
  std::atomic<bool> interrupted{false}; // polled by the backend while it computes
  std::atomic<uint64_t> polls{0};       // how often: a sign that it does
  std::atomic<bool> paused{false};      // of steps that follow each other, the one in flight is the last
  bool closed = false;
  Stashes stashes;
  std::unique_ptr<DraftCosts> draft_costs; // null where guesses are not evaluated
  size_t most_outputs = 1;
  int32_t threads = 1; // at most, for steps of one row and of more
  int32_t threads_batch = 1;
  double rows_per_ms = 0; // of the last embedding pass, 0 before the first

private:
  std::vector<std::function<void(Napi::Env)>> waiting_for_close;
  Worker worker;
};

// What repeats is less likely: counts of the last tokens, prompt included.
struct Penalties {
  int32_t last_n = 0;
  float repeat = 1, frequency = 0, presence = 0;

  bool active() const { return last_n > 0 && (repeat != 1 || frequency != 0 || presence != 0); }
  void accept(llama_token token);
  void apply(float *logits) const;

  std::vector<llama_token> recent = {}; // a ring
  size_t next = 0;
  std::unordered_map<llama_token, int32_t> counts = {};
};

// What one request is sampled with; made on a pool thread. Either llama.cpp's chain or `choice`
// draws.
struct SamplerParts {
  common_sampler_ptr chain;
  std::unique_ptr<Choice> choice;
  std::unique_ptr<Constraint> constraint;
  std::unique_ptr<Drafter> drafter; // null where guesses are not wanted
  std::unique_ptr<Thoughts> thoughts; // null where nothing ends them
  std::vector<llama_logit_bias> biases;
  Penalties penalties;
  std::unique_ptr<Logprobs> logprobs;      // null where nobody asks for them
  std::vector<llama_token> ends;           // those that do not come yet
  int32_t before_end = 0;                  // tokens to come before they do

  SamplerParts() = default;
  // `draws_by_chain`: whatever the parameters. `by_chain`: its grammar is the chain's, too.
  SamplerParts(const std::shared_ptr<ModelState> &model, common_params_sampling &params,
               const std::vector<llama_token> &history, bool draws_by_chain, bool by_chain);
};

// A sampler's state belongs to one sequence. Used by the compute thread during a step, else by the
// JS thread.
struct SamplerState {
  std::shared_ptr<ModelState> model;
  SamplerParts parts;
  uint32_t seed = 0;
  std::atomic<bool> closed{false};

  // The compute thread or one of its team. Reads and changes the logits of row `row` of the last
  // decode, picks a token and accepts it. `threads` may share the row. Throws on failure.
  // `undecided` where the grammar needs more work than others should wait for: decide() then has
  // the token, and no step may use the sampler before.
  llama_token sample(llama_context *context, int32_t row, float *logits, int32_t threads);
  static constexpr llama_token undecided = -3;
  // Instead, of a row in the prompt: notes how likely the token was that follows there.
  void score(const float *logits, llama_token token, int32_t threads);
  // Pool thread. Once for each undecided token.
  llama_token decide();
  // llama.cpp's chain with a grammar of its own, which only tests ask for, or with none.
  bool by_chain() const { return parts.chain != nullptr && !parts.constraint; }
  const Drafter *drafter() const { return closed ? nullptr : parts.drafter.get(); }
  // JS thread. False where the sampler was not made for it.
  bool end_thinking() const;
  // Random numbers drawn so far; -1 where llama.cpp's chain draws, whose state cannot be told.
  int32_t draws() const { return parts.choice ? static_cast<int32_t>(parts.choice->draws()) : -1; }
  // Pool thread, before any step: goes on behind tokens that another sampler of the same options
  // gave, with so many draws. Throws where the chain draws, or the tokens are none of its grammar.
  void resume(const std::vector<llama_token> &tokens, int32_t draws);
  // JS thread, when no step can use it any more.
  void release();

private:
  llama_token sample_by_chain(llama_context *context, int32_t row);
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
  std::vector<float> end_logits; // of the ends, while they must not come
  std::vector<float> held; // the row of an undecided token
  llama_token held_winner = -1; // what would have come without the grammar
};

// --- model.cpp
// True where a token sees only those before it, which is what generating needs.
bool is_causal(const llama_model *model);

class Model : public Napi::ObjectWrap<Model> {
public:
  static Napi::Function define(Napi::Env env);
  explicit Model(const Napi::CallbackInfo &info);
  static Napi::Value load(const Napi::CallbackInfo &info);

private:
  static Napi::Value start_load(Napi::Env env, const Options &options);
  Napi::Value metadata(const Napi::CallbackInfo &info);
  Napi::Value chat_template(const Napi::CallbackInfo &info);
  Napi::Value tokenize(const Napi::CallbackInfo &info);
  Napi::Value detokenize(const Napi::CallbackInfo &info);
  Napi::Value piece(const Napi::CallbackInfo &info);
  Napi::Value pieces(const Napi::CallbackInfo &info);
  Napi::Value create_context(const Napi::CallbackInfo &info);
  Napi::Value create_embedder(const Napi::CallbackInfo &info);
  Napi::Value create_sampler(const Napi::CallbackInfo &info);      // sampler.cpp
  Napi::Value apply_chat_template(const Napi::CallbackInfo &info); // chat.cpp
  Napi::Value create_parser(const Napi::CallbackInfo &info);       // chat.cpp
  Napi::Value prepare_chat(const Napi::CallbackInfo &info);        // prepare.cpp
  Napi::Value remember(const Napi::CallbackInfo &info);            // prepare.cpp
  Napi::Value remembers(const Napi::CallbackInfo &info);           // prepare.cpp
  Napi::Value forget(const Napi::CallbackInfo &info);              // prepare.cpp
  Napi::Value limit_grammars(const Napi::CallbackInfo &info); // sampler.cpp
  Napi::Value close(const Napi::CallbackInfo &info);

  // The state, or a thrown / rejected `closed`.
  std::shared_ptr<ModelState> open(Napi::Env env) const;
  // A sampler's state, empty, which is released before the model is.
  std::shared_ptr<SamplerState> new_sampler(Napi::Env env);

  std::shared_ptr<ModelState> state;
  std::vector<std::weak_ptr<ContextCore>> contexts;
  std::vector<std::weak_ptr<SamplerState>> samplers;
  Napi::ObjectReference closing; // the promise of the first close()
};

// --- context.cpp, step.cpp, kv.cpp True where any range of a sequence can be cut out or copied:
// plain attention over the whole context.
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
  int32_t context_size = 0; // longest input in tokens
};

// --- sampler.cpp
class Sampler : public Napi::ObjectWrap<Sampler> {
public:
  static Napi::Function define(Napi::Env env);
  explicit Sampler(const Napi::CallbackInfo &info);
  // A sampler of parts that were made on the pool; throws where the model was closed meanwhile.
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

// --- chat.cpp
class Parser : public Napi::ObjectWrap<Parser> {
public:
  static Napi::Function define(Napi::Env env);
  explicit Parser(const Napi::CallbackInfo &info);

private:
  Napi::Value parse(const Napi::CallbackInfo &info);
  Napi::Value message(const Napi::CallbackInfo &info);
  Napi::Value close(const Napi::CallbackInfo &info);

  std::shared_ptr<AnswerShape> answer; // without its shape once closed
  common_chat_parser_params params;
  common_chat_msg current;
  std::vector<std::string> call_ids;
  std::vector<bool> call_announced;
};

// --- log.cpp. The errors llama.cpp logged on this thread since `clear`, for the message of a
// failed load.
namespace log {
Napi::Value set_sink(const Napi::CallbackInfo &info);
void install();
void clear_errors();
std::string last_errors();

// From the moment that `asked` is true, errors which this thread logs are held back until it is
// known whether they only say that a computation stopped as it was asked to. One at a time for each
// thread.
class HeldErrors {
public:
  explicit HeldErrors(const std::atomic<bool> &asked);
  ~HeldErrors(); // what is still held goes to the log as it came
  HeldErrors(const HeldErrors &) = delete;
  HeldErrors &operator=(const HeldErrors &) = delete;

  void expected(); // what is held was asked for: it goes to the log as debug
};
} // namespace log

} // namespace recua
