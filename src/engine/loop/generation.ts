// One generating request inside the engine: its sequence, sampler, text, parser and times, and the
// text work of its new tokens. The engine calls it between steps.
import type { NativeSampler, Pieces } from '../../addon/addon.js';
import type { PreparedPrompt } from '../prompts/chat.js';
import type { Asker, BegunAnswer, Delta, EngineEvent, FinishReason, Timings, Usage } from '../protocol.js';
import { pack, piece } from '../packed-tokens.js';
import type { ToldToken } from '../telling.js';
import type { Sequence } from '../planning/sequence.js';
import { Text } from '../text/text.js';
import { ToldTokens, type Noted } from '../text/told-tokens.js';

const lineFeed = 0x0a;

export class Generation {
  readonly id: number;
  readonly sequence: Sequence;
  readonly asker: Asker | undefined;
  readonly sampler: NativeSampler;
  readonly guesses: boolean;
  readonly #text: Text;
  /** Set if the request asks for tokens or log probabilities. */
  #told: ToldTokens | undefined;
  readonly #prepared: PreparedPrompt;
  readonly arrivedMs: number;
  /** Copied, since the sampler may be closed before the last text work. */
  readonly #seed: number;
  #started = false;
  #startedMs = 0;
  #firstMs = 0;
  #lastMs = 0;
  /** Tokens up to here are rendered as text. */
  #rendered: number;
  /** Tokens up to here came from another engine process, before the time limit. */
  #begun = 0;
  /** The text's length after each generated token. */
  readonly #ends: number[] = [];
  #finishReason: FinishReason | undefined;
  /** Its sampler is closed; these are the sampler's last log probabilities. */
  #left = false;
  #lastNoted: Noted | undefined;
  /** The part that the last text belongs to. */
  #part: ToldToken['part'];
  /** Where the content sent so far ends in the whole text. */
  #contentEnd = 0;
  #remembered = false;
  /** 'done' was among the events. */
  answered = false;

  constructor(id: number, sequence: Sequence, prepared: PreparedPrompt, arrivedMs: number, asker?: Asker) {
    this.id = id;
    this.sequence = sequence;
    this.asker = asker;
    this.sampler = prepared.sampler;
    this.guesses = prepared.guesses;
    this.#prepared = prepared;
    this.#text = new Text(prepared.stops);
    this.arrivedMs = arrivedMs;
    this.#seed = prepared.sampler.seed;
    this.#rendered = sequence.promptLength;
  }

  /**
   * Continues an answer that another engine process began. The sampler has been resumed already.
   * `nowMs`: when its request came to this process.
   */
  resume({ tokens, exactly, again = 0, startedMs, firstMs }: BegunAnswer, flags: Uint8Array, nowMs: number): void {
    if (startedMs > 0) this.#startedMs = nowMs - startedMs;
    if (firstMs > 0 && tokens.length > 0) this.#firstMs = this.#lastMs = nowMs - firstMs;
    this.sequence.continues = startedMs > 0;
    this.#finishReason = this.sequence.resume(tokens, flags, exactly);
    this.#begun = Math.max(this.sequence.length, this.sequence.promptLength + again);
  }

  /** Notes that a step with this sequence begins; true for the first one. */
  start(nowMs: number): boolean {
    if (this.#started) return false;
    this.#started = true;
    this.#startedMs ||= nowMs;
    return true;
  }

  /**
   * Takes a step's tokens, for which it evaluated `guesses` guesses. Does no text work: the next
   * step waits for this. False if the answer was cancelled or ended by a stop string meanwhile; the
   * tokens are then dropped.
   */
  accept(tokens: Int32Array, guesses: number, flags: Uint8Array, nowMs: number): boolean {
    if (this.sequence.state === 'finished') {
      this.sequence.overrun ||= tokens.length > 1;
      return false;
    }
    if (this.#firstMs === 0) this.#firstMs = Math.max(nowMs, this.#startedMs);
    this.#lastMs = Math.max(nowMs, this.#firstMs);
    this.sequence.draftedTokens += guesses;
    this.sequence.acceptedTokens += tokens.length - 1;
    this.#finishReason = this.sequence.acceptAll(tokens, flags);
    return true;
  }

  /**
   * Its sequence left its slot. With `rendersMore`, the text work of its last tokens follows, and
   * its end closes the parser.
   */
  leave(rendersMore: boolean): void {
    if (rendersMore && this.#prepared.tells.logprobs !== undefined) this.#lastNoted = this.sampler.logprobs();
    this.#left = true;
    this.sampler.close();
    if (!rendersMore) this.#finish();
  }

  /** Nobody wants its text any more; `leave` may have counted on more of it. */
  abandon(): void {
    if (this.#left) this.#finish();
  }

  #finish(): void {
    this.#prepared.parser.close();
    // After a cancel, the client may continue from the text that was sent.
    this.#remember();
  }

  /** Called before the end is sent, since the next turn may arrive at once. */
  #remember(): void {
    const { sequence } = this;
    // All clients' prompts use what is remembered, and the count of their tokens would show it.
    if (this.#remembered || sequence.generated === 0 || sequence.salt !== '') return;
    this.#remembered = true;
    this.#prepared.remember?.(sequence.tokens.subarray(0, sequence.length));
  }

  get tellsProgress(): boolean {
    return this.#prepared.tells.progress ?? false;
  }

  /** How far the prompt is evaluated; undefined after the first token. */
  progress(nowMs: number): EngineEvent | undefined {
    const { promptLength: total, cachedTokens: cached, evaluated } = this.sequence;
    if (this.#firstMs !== 0) return undefined;
    const progress = { total, cached, processed: Math.min(total, evaluated), elapsedMs: nowMs - this.#startedMs };
    return { id: this.id, kind: 'delta', delta: { progress } };
  }

  /** Turns new tokens into text, and text into events. A stop string finishes the sequence. */
  render(pieces: Pieces, events: EngineEvent[]): void {
    const { sequence } = this;
    if (this.#rendered === sequence.promptLength) this.#begin(pieces, events);
    else if (this.#told) this.#gather(this.#told);
    if (sequence.isMute) {
      this.#finishReason = 'length';
      sequence.cut(sequence.promptLength);
    }
    for (; this.#rendered < sequence.length; this.#rendered++) {
      const token = sequence.tokens[this.#rendered]!;
      const last = this.#rendered === sequence.length - 1;
      if (last && this.#finishReason === 'stop') {
        this.#told?.push(token, this.#text.length);
        break;
      }
      const bytes = this.#prepared.shown.get(token) ?? pieces.bytes.subarray(pieces.offsets[token], pieces.offsets[token + 1]);
      this.#text.push(bytes, this.#rendered - sequence.promptLength + 1 >= this.#prepared.minTokens);
      this.#ends.push(this.#text.whole.length);
      this.#told?.push(token, this.#text.stop === undefined ? this.#text.length : Infinity);
      if (this.#text.stop !== undefined) {
        this.#finishReason = 'stop';
        sequence.cut(this.#rendered + 1);
        break;
      }
      if (this.#rendered >= this.#begun && this.#isOverdue() && bytes.includes(lineFeed)) {
        this.#finishReason = 'length';
        sequence.cut(this.#rendered + 1);
        break;
      }
    }
    if (this.#finishReason !== undefined) this.#end(this.#finishReason, events);
    else this.#emit(this.#prepared.parser.push(this.#text.whole), events);
  }

  /** Before an error: the text that a stop string or a pause of the parser holds back. */
  flush(events: EngineEvent[]): void {
    this.#text.end();
    this.#emit(this.#prepared.parser.push(this.#text.whole, true), events);
  }

  /** Before the first token is rendered: what the request wants to know of its prompt. */
  #begin(pieces: Pieces, events: EngineEvent[]): void {
    const { tells, shown, echo, spelled } = this.#prepared;
    if (tells.logprobs !== undefined || tells.tokens) this.#told = new ToldTokens(pieces, shown, tells.logprobs);
    if (this.#told) this.#gather(this.#told);
    const prompt = this.sequence.tokens.subarray(0, this.sequence.promptLength);
    const promptTokens = tells.prompt && this.#told ? { promptTokens: this.#told.ofPrompt(prompt, spelled) } : {};
    if (echo !== '' || tells.prompt) events.push({ id: this.id, kind: 'delta', delta: { ...(echo === '' ? {} : { echo }), ...promptTokens } });
  }

  /** Collects the sampler's log probabilities of new tokens. */
  #gather(told: ToldTokens): void {
    const noted = this.#left ? this.#lastNoted : this.sampler.logprobs();
    this.#lastNoted = undefined;
    if (noted) told.note(noted);
  }

  /** Over the time limit. As in llama-server, the current line is still completed. */
  #isOverdue(): boolean {
    const { generateMs } = this.#prepared;
    return generateMs > 0 && this.#lastMs - this.#firstMs > generateMs;
  }

  #end(reason: FinishReason, events: EngineEvent[]): void {
    this.answered = true;
    this.#remember();
    this.#text.end();
    const { delta, finishReason, warnings: parsing } = this.#prepared.parser.end(this.#text.whole, reason, reason === 'length' || this.#text.stop !== undefined);
    const warnings = [...this.#prepared.warnings, ...parsing];
    this.#emit(delta, events, true);
    events.push({
      id: this.id,
      kind: 'done',
      finishReason,
      usage: { ...this.#usage(), ...this.#thought() },
      timings: this.#timings(),
      seed: this.#seed,
      ...(this.#text.stop === undefined ? {} : { stop: this.#text.stop }),
      ...(warnings.length > 0 ? { warnings } : {}),
    });
  }

  /** Tokens up to the end of the reasoning, including the mark before it. */
  #thought(): { reasoningTokens?: number } {
    const { reasoning } = this.#prepared.parser;
    if (reasoning === '') return {};
    const end = this.#text.whole.indexOf(reasoning) + reasoning.length;
    const after = this.#ends.findIndex((at) => at >= end);
    return { reasoningTokens: after < 0 ? this.#ends.length : after + 1 };
  }

  #timings(): Timings {
    return {
      queueMs: this.#startedMs - this.arrivedMs,
      promptMs: this.#firstMs - this.#startedMs,
      generateMs: this.#lastMs - this.#firstMs,
    };
  }

  /** With a prediction, the counts of guessed tokens are present even if they are 0. */
  #usage(): Usage {
    const usage = this.sequence.usage();
    return this.#prepared.predicted ? { draftedTokens: 0, acceptedTokens: 0, ...usage } : usage;
  }

  /** The part of a token whose text begins at `start`: one delta may hold several parts. */
  #partAt(start: number, delta: Delta | undefined): ToldToken['part'] {
    if (!delta?.content) return delta ? delta.reasoning ? 'reasoning' : 'call' : this.#part;
    const from = this.#contentStart(delta.content);
    if (start < from) return delta.reasoning ? 'reasoning' : this.#part;
    return delta.toolCalls && start >= from + delta.content.length ? 'call' : undefined;
  }

  /** Where this content begins in the whole text, after reasoning and marks. */
  #contentStart(content: string): number {
    const { whole } = this.#text;
    const { reasoning } = this.#prepared.parser;
    const behind = this.#contentEnd || (reasoning === '' ? 0 : whole.indexOf(reasoning) + reasoning.length);
    return Math.max(behind, whole.indexOf(content, behind));
  }

  #emit(delta: Delta | undefined, events: EngineEvent[], isEnd = false): void {
    // Only a delta shows which part a token belongs to; a parser may pause between two of them.
    const released = delta || isEnd ? this.#told?.release(this.#text.whole.length, isEnd) ?? [] : [];
    if (!delta && released.length === 0) return;
    const tokens = released.map(({ token, start }) => {
      const part = this.#partAt(start, delta);
      return part ? { ...token, part } : token;
    });
    if (delta) this.#part = delta.toolCalls ? 'call' : delta.content ? undefined : 'reasoning';
    if (this.#told && delta?.content) this.#contentEnd = this.#contentStart(delta.content) + delta.content.length;
    const soFar = this.#prepared.tells.timings ? { soFar: { usage: this.#usage(), timings: this.#timings() } } : {};
    events.push({ id: this.id, kind: 'delta', delta: { ...delta, ...(tokens.length > 0 ? { tokens: pack(tokens.slice(0, piece)) } : {}), ...soFar } });
    for (let at = piece; at < tokens.length; at += piece) events.push({ id: this.id, kind: 'delta', delta: { tokens: pack(tokens.slice(at, at + piece)) } });
  }
}
