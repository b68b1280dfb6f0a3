// One request's tokens and how far they are evaluated: state, positions, limits, usage.
// Pure. The engine drives it; the scheduler and the prefix cache read it.
import type { FinishReason, Usage } from '../protocol.js';

/**
 * waiting: no slot yet. prefill: known tokens are being evaluated. decode: one token per step.
 * deciding: everything is evaluated, and a pool thread decides the next token. finished: leaves at
 * the next settle.
 */
export type SequenceState = 'waiting' | 'prefill' | 'decode' | 'deciding' | 'finished';

export class Sequence {
  state: SequenceState = 'waiting';
  /** The context's sequence id; -1 while it has none. */
  slot = -1;
  /** The prompt's tokens, then the generated ones; `length` of them are in use. */
  tokens: Int32Array;
  length: number;
  /** Tokens whose KV is in the slot. If fewer than `length`, there is something to evaluate. */
  evaluated = 0;
  /** The slot holds more than `evaluated`. */
  overrun = false;
  /** Guessed tokens, and how many of them were right. */
  draftedTokens = 0;
  acceptedTokens = 0;
  /** Prompt tokens that came from a shared or kept prefix. */
  cachedTokens = 0;
  readonly promptLength: number;
  /** Most tokens it may hold: prompt and answer, bounded by `maxTokens` and the context. */
  readonly limit: number;
  /**
   * The sequence whose prefill this one waits for, to share its KV. It waits for only one, so that
   * others cannot pass it forever.
   */
  leader: Sequence | undefined;
  /** Length of the prefix that it shares with the leader. */
  joinsAt = 0;
  /**
   * It ran in an engine process that died: it needs a slot again before those that never had one.
   */
  continues = false;
  /**
   * During prefill: length of the prefix that a waiting sequence shares with this one. It can join
   * once the prefix is evaluated. 0: nobody waits.
   */
  sharedLength = 0;
  /**
   * The request wants the prompt's log probabilities: all of it is evaluated, a few rows a step.
   */
  readonly isScored: boolean;
  /** Prompt tokens whose log probability is known, not counting the first. */
  scored = 0;
  /** During prefill: the length at which steps stop to take a checkpoint; 0: no checkpoint. */
  checkpointAt = 0;
  #replays = false;
  /** The request wants no tokens (`maxTokens` 0): its only token is not part of the answer. */
  readonly isMute: boolean;
  /** Only sequences with the same salt share its KV. */
  readonly salt: string;

  /**
   * `contextSize` must exceed the prompt; otherwise the caller answers `context_length_exceeded`.
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
   * Adds tokens that another engine process generated; called before the sequence has a slot.
   * `flags` and the result are those of acceptAll. `exactly` evaluates the tokens one per step as
   * the first time, which gives the same rounding.
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
   * Takes a slot in which the first `reused` tokens are evaluated already. Allocates the token
   * array once, up to the limit.
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

  /** Known tokens, not evaluated yet, that one step may read together. */
  get pending(): number {
    const { length, promptLength, evaluated } = this;
    if (!this.#replays || length === evaluated) return length - evaluated;
    return evaluated < promptLength ? promptLength - evaluated : 1;
  }

  /** The prompt is evaluated, and the known tokens of the answer follow one per step. */
  get isReplaying(): boolean {
    return this.#replays && this.state === 'prefill' && this.evaluated >= this.promptLength;
  }

  get generated(): number {
    return this.length - this.promptLength;
  }

  /**
   * Notes that a step evaluated `count` more tokens. If the sequence finished during a run of
   * steps, they are beyond its end: the slot is overrun.
   */
  advance(count: number): void {
    if (this.evaluated + count <= this.length) this.evaluated += count;
    else this.overrun = true;
  }

  /**
   * Takes a sampled token and decides at once whether it is the last. The last token is never
   * evaluated, so an answer may fill the context to its last position.
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

  /** Its KV is lost: all its tokens are evaluated again. */
  rewind(): void {
    this.evaluated = 0;
    this.cachedTokens = 0;
    this.overrun = false;
    if (this.state === 'decode') this.state = 'prefill';
  }

  /**
   * Takes the tokens of one step: more than one if guesses were right. The KV of all but the last
   * is in the slot already. `flags` are those of Pieces. Returns why the sequence ended, if it did.
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

  /** Ends it at `length`, e.g. after a stop string; tokens that a step gave beyond do not count. */
  cut(length: number): void {
    this.overrun ||= this.evaluated > length;
    this.length = length;
    this.evaluated = Math.min(this.evaluated, length);
    this.finish();
  }

  /** The step gave `given` tokens, evaluated all of them, and left the next one undecided. */
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
