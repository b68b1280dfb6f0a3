// One request's tokens and how far they are evaluated: state, positions, limits, usage.
// Pure; the engine drives it, the scheduler and the prefix cache read it.
import type { FinishReason, Usage } from '../protocol.js';

/**
 * waiting: no slot yet. prefill: known tokens are being evaluated. decode: one token per step.
 * deciding: all is evaluated, the next token is worked out beside the steps. finished: leaves at
 * the next settle.
 */
export type SequenceState = 'waiting' | 'prefill' | 'decode' | 'deciding' | 'finished';

export class Sequence {
  state: SequenceState = 'waiting';
  /** The context's sequence id it runs in; -1 while it has none. */
  slot = -1;
  /** The prompt's tokens, then the generated ones; `length` of them are in use. */
  tokens: Int32Array;
  length: number;
  /** Tokens whose KV is in the slot. Below `length` there is something to feed. */
  evaluated = 0;
  /** The slot holds more than `evaluated`. */
  overrun = false;
  /** Tokens that were guessed ahead, and those of them that came true. */
  draftedTokens = 0;
  acceptedTokens = 0;
  /** Prompt tokens that came from a shared or kept prefix. */
  cachedTokens = 0;
  readonly promptLength: number;
  /** Most tokens it may ever hold: prompt and answer, bounded by `maxTokens` and the context. */
  readonly limit: number;
  /**
   * The sequence whose prefill it lets go first to share its KV; it does so for one only, so that
   * it can't be passed for ever.
   */
  leader: Sequence | undefined;
  /**
   * While it is read: those that wait for it have so many tokens in common with it, and can join
   * when these are evaluated; 0 is none.
   */
  sharedLength = 0;
  /** How likely the prompt's tokens are is asked: all of them are evaluated, a few at a time. */
  readonly isScored: boolean;
  /** Tokens of the prompt for which that is known, the first not counted. */
  scored = 0;
  /**
   * While it is read: no step goes beyond so many tokens, where a checkpoint is taken; 0 is
   * nowhere.
   */
  checkpointAt = 0;
  #replays = false;
  /** Nothing is generated: its only token is not part of the answer. */
  readonly isMute: boolean;
  /** Its KV is shared with sequences of the same salt alone. */
  readonly salt: string;

  /**
   * `contextSize` must exceed the prompt: the caller has answered `context_length_exceeded`
   * otherwise.
   */
  constructor(prompt: Int32Array, maxTokens: number, contextSize: number, isScored = false, salt = '') {
    this.tokens = prompt;
    this.length = this.promptLength = prompt.length;
    this.limit = Math.min(prompt.length + Math.max(1, maxTokens), contextSize);
    this.isMute = maxTokens === 0;
    this.isScored = isScored;
    this.salt = salt;
  }

  /**
   * Before it has a slot: these were generated already. `flags` and the reason are acceptAll's.
   * `exactly` evaluates them as they were then: one in each step, which rounds as it did.
   */
  resume(generated: Int32Array, flags: Uint8Array, exactly: boolean): FinishReason | undefined {
    this.#replays = exactly;
    const tokens = new Int32Array(this.promptLength + generated.length);
    tokens.set(this.tokens);
    this.tokens = tokens;
    for (const token of generated) {
      const reason = this.accept(token, (flags[token]! & 1) !== 0);
      if (reason) return reason;
    }
    this.state = 'waiting';
    return undefined;
  }

  /**
   * Takes a slot in which the first `reused` tokens are evaluated already. Allocates once for all
   * that may come.
   */
  join(slot: number, reused: number): void {
    const tokens = new Int32Array(this.limit);
    tokens.set(this.tokens.subarray(0, this.length));
    this.tokens = tokens;
    this.slot = slot;
    this.evaluated = reused;
    this.cachedTokens = Math.min(reused, this.promptLength);
    this.state = 'prefill';
  }

  /** Tokens known but not evaluated, that a step may read together. */
  get pending(): number {
    const { length, promptLength, evaluated } = this;
    if (!this.#replays || length === evaluated) return length - evaluated;
    return evaluated < promptLength ? promptLength - evaluated : 1;
  }

  /** The prompt is read, and one known token of the answer follows the other. */
  get isReplaying(): boolean {
    return this.#replays && this.state === 'prefill' && this.evaluated >= this.promptLength;
  }

  get generated(): number {
    return this.length - this.promptLength;
  }

  /**
   * Notes that a step evaluated `count` more tokens: its own, unless it was finished while steps
   * followed each other.
   */
  advance(count: number): void {
    if (this.evaluated + count <= this.length) this.evaluated += count;
    else this.overrun = true;
  }

  /**
   * Takes a sampled token and decides at once whether it was the last.
   * The last token is never evaluated, so an answer may fill the context to its last position.
   */
  accept(token: number, endsGeneration: boolean): FinishReason | undefined {
    this.tokens[this.length++] = token;
    if (endsGeneration || this.length >= this.limit) {
      this.state = 'finished';
      return endsGeneration ? 'stop' : 'length';
    }
    this.state = 'decode';
    return undefined;
  }

  /** Its KV is lost, its tokens are not: evaluates all of them anew. */
  rewind(): void {
    this.evaluated = 0;
    this.cachedTokens = 0;
    this.overrun = false;
    if (this.state === 'decode') this.state = 'prefill';
  }

  /**
   * Takes the tokens that one step gave, more than one where guesses came true: their KV is in the
   * slot already, but for the last one's. `flags` are those of Pieces. Returns why it ended, if it
   * did.
   */
  acceptAll(tokens: Int32Array, flags: Uint8Array): FinishReason | undefined {
    for (const [i, token] of tokens.entries()) {
      if (i > 0) this.advance(1);
      const reason = this.accept(token, (flags[token]! & 1) !== 0);
      if (!reason) continue;
      this.overrun ||= i < tokens.length - 1;
      return reason;
    }
    return undefined;
  }

  /**
   * Ends it after so many tokens: a stop string was found there, and what one step gave beyond it
   * does not count.
   */
  cut(length: number): void {
    this.overrun ||= this.evaluated > length;
    this.length = length;
    this.evaluated = Math.min(this.evaluated, length);
    this.finish();
  }

  /**
   * The step that gave the last `given` tokens evaluated all of them, but left open what follows.
   */
  defer(given: number): void {
    if (given > 0) this.advance(1);
    if (this.state === 'finished') return;
    this.state = 'deciding';
  }

  finish(): void {
    this.state = 'finished';
  }

  /** The end-of-generation token counts, as it does in llama-server. */
  usage(): Usage {
    return {
      promptTokens: this.promptLength, cachedTokens: this.cachedTokens, completionTokens: this.generated,
      ...(this.draftedTokens > 0 ? { draftedTokens: this.draftedTokens, acceptedTokens: this.acceptedTokens } : {}),
    };
  }
}
