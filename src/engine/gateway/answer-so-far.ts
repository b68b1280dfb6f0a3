// The gateway's record of a running answer. If the engine process dies, another one continues from
// it, and the record shows which of its text was delivered before. Used by engine/gateway/requests;
// docs/design/resuming.md explains the idea.
import { behindFirst } from '../packed-tokens.js';
import type { BegunAnswer, ChatRequest, CompletionRequest, Delta } from '../protocol.js';

/**
 * Tokens that took up to this long to generate are evaluated again one by one, so that the answer
 * continues exactly as it would have. More tokens are read like a prompt: that takes a tenth of the
 * time, but rounds differently.
 */
const exactMs = 10_000;

/** Delivered text, by part. */
interface Given {
  content: string;
  reasoning: string;
  calls: Map<number, { id?: string; name?: string; arguments: string; isRepeated?: boolean }>;
  /** Number of delivered tokens. */
  tokens: number;
  /** The echo or the prompt's tokens, sent once, were delivered. */
  echoed: boolean;
}

export class AnswerSoFar {
  /** No other sampler can take over its tokens: the answer is generated again and compared. */
  #restarts: boolean;
  #prompt: Int32Array | undefined;
  #tokens = new Int32Array(0);
  #length = 0;
  /** Most tokens that it had before it was generated again. */
  #before = 0;
  #draws = 0;
  readonly #sentMs = performance.now();
  #startedMs = 0;
  #firstMs = 0;
  /** Time from the first token to the last. */
  #generateMs = 0;
  readonly #given: Given = nothing();
  /** `endThinking` was called. */
  endsThinking = false;
  /** Delivered text that the next engine process will send again. */
  #repeated: Given | undefined;

  constructor({ tells }: ChatRequest | CompletionRequest) {
    this.#restarts = tells?.logprobs !== undefined || tells?.prompt === true;
  }

  /** Number of known tokens. */
  get length(): number {
    return this.#length;
  }

  get hasStarted(): boolean {
    return this.#startedMs > 0;
  }

  accepted(prompt: Int32Array | undefined): void {
    this.#prompt ??= prompt;
  }

  started(): void {
    this.#startedMs ||= performance.now();
  }

  /** Adds sampled tokens. `draws`: random numbers drawn so far in all; -1: unknown. */
  note(tokens: Int32Array, draws: number): void {
    this.#firstMs ||= performance.now();
    this.#generateMs = performance.now() - this.#firstMs;
    this.#draws = draws;
    this.#restarts ||= draws < 0;
    if (this.#length + tokens.length > this.#tokens.length) {
      const larger = new Int32Array(2 * (this.#length + tokens.length) + 64);
      larger.set(this.#tokens.subarray(0, this.#length));
      this.#tokens = larger;
    }
    this.#tokens.set(tokens, this.#length);
    this.#length += tokens.length;
  }

  /** What another engine process needs to continue; undefined if it starts from the beginning. */
  resume(): BegunAnswer | undefined {
    this.#repeated = copyOf(this.#given);
    if (!this.#prompt) return undefined;
    const nowMs = performance.now();
    const age = (ms: number): number => (ms > 0 ? nowMs - ms : 0);
    const common = {
      prompt: this.#prompt,
      exactly: this.#generateMs <= exactMs,
      endsThinking: this.endsThinking,
      arrivedMs: age(this.#sentMs),
      startedMs: age(this.#startedMs),
      firstMs: age(this.#firstMs),
    };
    if (!this.#restarts) return { ...common, tokens: this.#tokens.slice(0, this.#length), draws: this.#draws };
    this.#before = Math.max(this.#before, this.#length);
    this.#length = 0;
    return { ...common, tokens: new Int32Array(0), draws: 0, again: this.#before };
  }

  /** Forgets the tokens, which mean nothing to another model: generates again, and compares. */
  startOver(): void {
    this.#prompt = undefined;
    this.#length = this.#before = 0;
  }

  /**
   * Delivered text has not come again: if the regenerated answer ends now, it differs. Thinking
   * that the client has ended may be shorter.
   */
  get isShorter(): boolean {
    if (!this.#repeated) return false;
    const { content, reasoning, calls } = this.#repeated;
    if (content !== '' || (reasoning !== '' && !this.endsThinking)) return true;
    return [...calls.values()].some((call) => !call.isRepeated || call.arguments !== '');
  }

  /**
   * The new part of a delta; undefined if nothing is new. 'differs' if a regenerated answer does
   * not match the delivered text.
   */
  take(delta: Delta): Delta | 'differs' | undefined {
    if (this.#repeated) {
      const fresh = without(delta, this.#repeated);
      if (fresh === undefined || fresh === 'differs') return fresh;
      delta = fresh;
    }
    note(delta, this.#given);
    return delta;
  }
}

function nothing(): Given {
  return { content: '', reasoning: '', calls: new Map(), tokens: 0, echoed: false };
}

function copyOf(given: Given): Given {
  return { ...given, calls: new Map(Array.from(given.calls, ([index, call]) => [index, { ...call }])) };
}

function note(delta: Delta, given: Given): void {
  if (delta.content !== undefined) given.content += delta.content;
  if (delta.reasoning !== undefined) given.reasoning += delta.reasoning;
  for (const { index, id, name, arguments: text = '' } of delta.toolCalls ?? []) {
    const known = given.calls.get(index);
    given.calls.set(index, { ...(id === undefined ? {} : { id }), ...(name === undefined ? {} : { name }), ...known, arguments: (known?.arguments ?? '') + text });
  }
  given.tokens += delta.tokens?.count ?? 0;
  if (delta.echo !== undefined || delta.promptTokens) given.echoed = true;
}

/** Removes delivered text from a delta, and from `repeated`, the text still expected again. */
function without(delta: Delta, repeated: Given): Delta | 'differs' | undefined {
  const fresh: Delta = { ...delta };
  for (const key of ['content', 'reasoning'] as const) {
    const text = delta[key];
    if (text === undefined || repeated[key] === '') continue;
    const rest = behind(repeated[key], text);
    if (rest === undefined) return 'differs';
    repeated[key] = repeated[key].slice(text.length);
    if (rest === '') delete fresh[key];
    else fresh[key] = rest;
  }
  if (delta.toolCalls) {
    const calls: typeof delta.toolCalls = [];
    for (const call of delta.toolCalls) {
      const known = repeated.calls.get(call.index);
      if (!known) {
        calls.push(call);
        continue;
      }
      known.isRepeated = true;
      const left: typeof call = { index: call.index };
      // The call's id is random; the client has the first one.
      if (call.id !== undefined && known.id === undefined) left.id = call.id;
      if (call.name !== undefined && known.name === undefined) left.name = call.name;
      else if (call.name !== undefined && call.name !== known.name) return 'differs';
      if (call.arguments !== undefined) {
        const rest = behind(known.arguments, call.arguments);
        if (rest === undefined) return 'differs';
        known.arguments = known.arguments.slice(call.arguments.length);
        if (rest !== '') left.arguments = rest;
      }
      if (Object.keys(left).length > 1) calls.push(left);
    }
    if (calls.length > 0) fresh.toolCalls = calls;
    else delete fresh.toolCalls;
  }
  if (delta.tokens && repeated.tokens > 0) {
    const told = behindFirst(delta.tokens, repeated.tokens);
    repeated.tokens -= delta.tokens.count - (told?.count ?? 0);
    if (told) fresh.tokens = told;
    else delete fresh.tokens;
  }
  if (repeated.echoed) {
    delete fresh.echo;
    delete fresh.promptTokens;
  }
  if (Object.keys(fresh).length === 0 || (Object.keys(fresh).length === 1 && fresh.soFar)) return undefined;
  return fresh;
}

/** The part of `text` after the expected text; undefined if `text` differs from it. */
function behind(expected: string, text: string): string | undefined {
  const both = Math.min(expected.length, text.length);
  return expected.slice(0, both) === text.slice(0, both) ? text.slice(both) : undefined;
}
