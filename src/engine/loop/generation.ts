// One generating request inside the engine: its sequence with all that hangs on it (sampler, text,
// parser, times), and the text work of its new tokens. The engine calls it between steps.
import type { NativeSampler, Pieces } from '../../addon/addon.js';
import type { PreparedPrompt } from '../prompts/chat.js';
import type { Delta, EngineEvent, FinishReason } from '../protocol.js';
import type { Sequence } from '../planning/sequence.js';
import { Text } from '../text/text.js';

const lineFeed = 0x0a;

export class Generation {
  readonly id: number;
  readonly sequence: Sequence;
  readonly sampler: NativeSampler;
  readonly #text: Text;
  readonly #prepared: PreparedPrompt;
  readonly #arrivedMs: number;
  /** The sampler may be closed before the last text work. */
  readonly #seed: number;
  #startedMs = 0;
  #firstMs = 0;
  #lastMs = 0;
  /** Tokens up to here have become text. */
  #rendered: number;
  /** Where in the text each generated token ends. */
  readonly #ends: number[] = [];
  #finishReason: FinishReason | undefined;
  /** 'done' was among the events. */
  answered = false;

  constructor(id: number, sequence: Sequence, prepared: PreparedPrompt, arrivedMs: number) {
    this.id = id;
    this.sequence = sequence;
    this.sampler = prepared.sampler;
    this.#prepared = prepared;
    this.#text = new Text(prepared.stops);
    this.#arrivedMs = arrivedMs;
    this.#seed = prepared.sampler.seed;
    this.#rendered = sequence.promptLength;
  }

  /** Notes that a step with this sequence begins; true if it is the first. */
  start(nowMs: number): boolean {
    if (this.#startedMs !== 0) return false;
    this.#startedMs = nowMs;
    return true;
  }

  /**
   * Takes the tokens that a step gave, evaluating so many guesses. No text work: the next step
   * waits for this. False, and they are thrown away, where the answer was cancelled or ended by a
   * stop string while they were computed.
   */
  accept(tokens: Int32Array, guesses: number, flags: Uint8Array, nowMs: number): boolean {
    if (this.sequence.state === 'finished') {
      this.sequence.overrun ||= tokens.length > 1;
      return false;
    }
    if (this.#firstMs === 0) this.#firstMs = nowMs;
    this.#lastMs = nowMs;
    this.sequence.draftedTokens += guesses;
    this.sequence.acceptedTokens += tokens.length - 1;
    this.#finishReason = this.sequence.acceptAll(tokens, flags);
    return true;
  }

  /**
   * Its sequence is gone. Text of its last tokens may still have to be made, and the end of that
   * closes the parser.
   */
  leave(rendersMore: boolean): void {
    this.sampler.close();
    if (!rendersMore) this.#prepared.parser.close();
  }

  /**
   * Turns new tokens into text and text into events. A stop string found here finishes the
   * sequence.
   */
  render(pieces: Pieces, events: EngineEvent[]): void {
    const { sequence } = this;
    for (; this.#rendered < sequence.length; this.#rendered++) {
      const token = sequence.tokens[this.#rendered]!;
      const last = this.#rendered === sequence.length - 1;
      if (last && this.#finishReason === 'stop') break;
      const bytes = this.#prepared.shown.get(token) ?? pieces.bytes.subarray(pieces.offsets[token], pieces.offsets[token + 1]);
      this.#text.push(bytes);
      this.#ends.push(this.#text.whole.length);
      if (this.#text.stop !== undefined) {
        this.#finishReason = 'stop';
        sequence.cut(this.#rendered + 1);
        break;
      }
      if (this.#isOverdue() && bytes.includes(lineFeed)) {
        this.#finishReason = 'length';
        sequence.cut(this.#rendered + 1);
        break;
      }
    }
    if (this.#finishReason !== undefined) this.#end(this.#finishReason, events);
    else this.#emit(this.#prepared.parser.push(this.#text.whole), events);
  }

  /** As llama-server has it: a line that was begun is completed. */
  #isOverdue(): boolean {
    const { generateMs } = this.#prepared;
    return generateMs > 0 && this.#lastMs - this.#firstMs > generateMs;
  }

  #end(reason: FinishReason, events: EngineEvent[]): void {
    this.answered = true;
    this.#text.end();
    const { delta, finishReason, warnings: parsing } = this.#prepared.parser.end(this.#text.whole, reason);
    const warnings = [...this.#prepared.warnings, ...parsing];
    this.#emit(delta, events);
    events.push({
      id: this.id,
      kind: 'done',
      finishReason,
      usage: { ...this.sequence.usage(), ...this.#thought() },
      timings: {
        queueMs: this.#startedMs - this.#arrivedMs,
        promptMs: this.#firstMs - this.#startedMs,
        generateMs: this.#lastMs - this.#firstMs,
      },
      seed: this.#seed,
      ...(this.#text.stop === undefined ? {} : { stop: this.#text.stop }),
      ...(warnings.length > 0 ? { warnings } : {}),
    });
  }

  /** Tokens up to the last of the thoughts, the mark before them included. */
  #thought(): { reasoningTokens?: number } {
    const { reasoning } = this.#prepared.parser;
    if (reasoning === '') return {};
    const end = this.#text.whole.indexOf(reasoning) + reasoning.length;
    const after = this.#ends.findIndex((at) => at >= end);
    return { reasoningTokens: after < 0 ? this.#ends.length : after + 1 };
  }

  #emit(delta: Delta | undefined, events: EngineEvent[]): void {
    if (delta) events.push({ id: this.id, kind: 'delta', delta });
  }
}
