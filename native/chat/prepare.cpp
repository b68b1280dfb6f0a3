// A chat request in one task on the pool: messages → prompt → tokens → sampler and parser.
// JavaScript sees neither the prompt's text nor the answer's constraints. The finished chat is
// remembered for the prompt that continues it.
#include "addon.h"

#include "cancelled.h"
#include "chat/chat_prompt.h"
#include "sampling/sampler_options.h"

#include <algorithm>
#include <cstring>

namespace recua {

namespace {

struct PreparedChat {
  ChatPrompt chat;
  std::vector<llama_token> tokens;
  size_t count = 0;      // tokens of the prompt
  bool at_least = false; // a lower bound: the prompt cannot fit, so it was not tokenized
  SamplerParts parts;
  bool made = false;
};

// Gives `fallback` as code to exceptions that have none.
template <typename Work>
void coding(const char *fallback, Work &&work) {
  const Outcome outcome = Outcome::of(work, fallback);
  if (outcome.code != nullptr) throw CodedError(outcome.code, outcome.message, outcome.index);
}

// Pool thread. Returns early, with `made` false, if the request must be refused for a reason known
// by then.
void prepare(const std::shared_ptr<ModelState> &model, const ChatInput &input, const std::vector<int32_t> &strict,
             SamplerRequest &sampling, const volatile int32_t *cancelled, PreparedChat &out) {
  bool fits = false;
  coding("invalid_messages", [&] { fits = render_chat(*model, input, cancelled, out.chat); });
  if (fits) {
    const auto &losses = out.chat.answer->shape->losses;
    const auto is_strict = [&](const schema::Loss &loss) { return std::find(strict.begin(), strict.end(), loss.tool) != strict.end(); };
    if (std::any_of(losses.begin(), losses.end(), is_strict)) return;
    const LengthBound &bound = model->length_bound();
    out.chat.least_tokens = bound.tokens(bound.bytes(out.chat.prompt.text));
    fits = out.chat.least_tokens < input.context_size;
  }
  out.at_least = !fits;
  out.count = out.chat.least_tokens;
  if (!fits) return;
  TokenizeOptions options;
  // Like llama-server: the template's own BOS is stripped, and tokenizing adds the vocabulary's.
  options.add_special = options.parse_special = true;
  options.literal = std::move(out.chat.prompt.literal);
  options.known = &model->history();
  coding("internal_error", [&] {
    out.tokens = tokenize(model->vocab, model->special_tokens(), out.chat.prompt.text, options, cancelled);
  });
  if (out.tokens.empty() && llama_vocab_bos(model->vocab) >= 0) out.tokens.push_back(llama_vocab_bos(model->vocab));
  out.count = out.tokens.size();
  if (out.tokens.empty() || out.count >= input.context_size) return;
  throw_if_cancelled(cancelled);
  const AnswerShape &answer = *out.chat.answer;
  const bool begun = answer.continuation && answer.grammar_kind == "tools";
  const Outcome outcome = Outcome::of([&] {
    sampling.grammar = GrammarSource(answer);
    out.parts = sampling.make(model, out.tokens, cancelled);
  }, "generation_failed");
  if (outcome.code != nullptr && begun && std::strcmp(outcome.code, "chat_unsupported") == 0) {
    throw CodedError("chat_unsupported", "This chat template cannot continue the last message as tools or a schema require. "
                                         "Leave out that message, tool_choice or the schema.");
  }
  if (outcome.code != nullptr) throw CodedError(outcome.code, outcome.message, outcome.index);
  std::string().swap(out.chat.answer->grammar); // the parser keeps the rest until the answer ends
  out.made = true;
}

} // namespace

Napi::Value Model::prepare_chat(const Napi::CallbackInfo &info) {
  return promised(info.Env(), [&]() -> Napi::Value {
    const Options options(info[0]);
    const auto sampler = new_sampler(info.Env());
    auto input = std::make_shared<ChatInput>(options);
    auto request = std::make_shared<SamplerRequest>(Options(info[1]));
    const auto flag = Flag::of(options.get("cancelled"));
    bool parse_tool_calls = false;
    options.boolean("parseToolCalls", parse_tool_calls);
    return Task<PreparedChat>::run(
        info.Env(), "internal_error",
        [=, model = sampler->model, strict = copy_array<int32_t>(options.get("strict"))](PreparedChat &out) {
          prepare(model, *input, strict, *request, flag->value(), out);
        },
        [=](Napi::Env env, PreparedChat &out) -> Napi::Value {
          auto prepared = Napi::Object::New(env);
          prepared.Set("count", static_cast<double>(out.count));
          prepared.Set("atLeast", out.at_least);
          const auto &answer = out.chat.answer;
          prepared.Set("unenforced", answer ? to_js(env, answer->shape->losses) : Napi::Array::New(env));
          if (!out.made) return prepared;
          auto made = Napi::Object::New(env);
          prepared.Set("made", made);
          made.Set("tokens", make_array(env, out.tokens));
          made.Set("stops", make_texts(env, answer->shape->params.additional_stops));
          made.Set("thinks", !answer->shape->params.thinking_end_tags.empty());
          made.Set("enforcesCalls", !answer->shape->params.grammar.empty());
          made.Set("showsTools", out.chat.shows_tools);
          made.Set("preservedIds", make_array(env, answer->shape->preserved_ids));
          // The parser first: if its constructor throws, no sampler is left unclosed.
          const auto &parser = env.GetInstanceData<AddonData>()->parser;
          made.Set("parser", parser.New({hold(env, answer), Napi::Boolean::New(env, parse_tool_calls)}));
          made.Set("sampler", Sampler::wrap(env, sampler, std::move(out.parts), request->params.seed));
          return prepared;
        });
  });
}

const LengthBound &ModelState::length_bound() {
  std::call_once(bound_found, [this] { bound = std::make_unique<LengthBound>(vocab); });
  return *bound;
}

History &ModelState::history() {
  std::call_once(history_made, [this] { chats = std::make_unique<History>(vocab, special_tokens()); });
  return *chats;
}

Napi::Value Model::remember(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&] {
    open(info.Env())->history().remember(copy_array<int32_t>(info[0]));
    return info.Env().Undefined();
  });
}

Napi::Value Model::remembers(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&] { return Napi::Boolean::New(info.Env(), open(info.Env())->history().knows(copy_array<int32_t>(info[0]))); });
}

Napi::Value Model::forget(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&] {
    open(info.Env())->history().forget();
    return info.Env().Undefined();
  });
}

} // namespace recua
