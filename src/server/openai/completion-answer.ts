// Writes answers in OpenAI's completions format, from the engine's deltas and numbers. Pure, except
// for new ids. Called by server/exchange. The counterpart of completion-request.
import { randomBytes } from 'node:crypto';
import type { Finish } from '../../engine/api.js';
import type { Delta, FinishReason, ModelDescription } from '../../engine/protocol.js';
import { idsOf, ToldList, unpack, type PackedTokens } from '../../engine/packed-tokens.js';
import type { ToldToken } from '../../engine/telling.js';
import type { WholeAnswer } from '../../engine/whole-answer.js';
import type { RecuaError } from '../../errors.js';
import type { AnswerWriter, AskedRest } from '../exchange/dialect.js';
import { errorBody } from '../http/error-reply.js';
import type { Frame } from '../http/stream.js';
import { ending, progressToWire, sumOf, timingsToWire, usageToWire } from './answer.js';
import type { CompletionBody } from './completion-request.js';
import { legacyLists, LegacyWriter } from './legacy-logprobs.js';

/** What an answer with `echo` begins with. */
interface Begun {
  text: string;
  tokens: readonly PackedTokens[];
}

export class CompletionWriter implements AnswerWriter {
  readonly #head: { id: string; object: 'text_completion'; created: number; model: string; system_fingerprint?: string };
  readonly #asked: AskedRest<CompletionBody>;
  /** Tokens of prompts, by prompt. */
  readonly #prompts: (readonly PackedTokens[])[] = [];
  readonly #begun = new Set<number>();
  readonly #writers: LegacyWriter[] = [];

  constructor(asked: AskedRest<CompletionBody>, model: string) {
    this.#asked = asked;
    this.#head = {
      id: `cmpl-${randomBytes(12).toString('hex')}`,
      object: 'text_completion',
      created: Math.floor(Date.now() / 1000),
      model,
    };
  }

  computedBy({ llamaCpp }: Pick<ModelDescription, 'llamaCpp'>): void {
    this.#head.system_fingerprint = `llama.cpp-${llamaCpp}`;
  }

  opening(): Frame[] {
    if (this.#asked.tells.logprobs !== undefined) return []; // the echo then comes with its log probabilities
    const { echoes, count } = this.#asked;
    return (echoes ?? []).flatMap((text, prompt) =>
      text ? Array.from({ length: count }, (_, at) => this.#chunk(text, prompt * count + at)) : [],
    );
  }

  ping(): Frame {
    return this.#chunk('', 0);
  }

  deltas(delta: Delta, index: number): Frame[] | Generator<Frame> {
    const { echo = '', content = '', tokens, promptTokens, progress, soFar } = delta;
    const begun = this.#begin(index, promptTokens);
    const isEmpty = echo + content === '' && !tokens && !progress && !soFar;
    const rest = (): Frame[] => (isEmpty ? [] : [this.#chunk(echo + content, index, delta)]);
    return begun ? this.#beginning(begun, index, rest) : rest();
  }

  ended(finish: Finish, index: number): Frame[] | Generator<Frame> {
    const begun = this.#begin(index, undefined);
    const rest = (): Frame[] => [this.#chunk('', index, {}, finish)];
    return begun ? this.#beginning(begun, index, rest) : rest();
  }

  ending(finishes: readonly Finish[]): Frame[] {
    const usage = { ...this.#head, choices: [], usage: usageToWire(sumOf(finishes, this.#asked.count)), ...ending(finishes) };
    return [...(this.#asked.includeUsage ? [{ data: usage }] : []), { data: '[DONE]' }];
  }

  /** The missing [DONE] shows that the answer is incomplete. */
  failure(error: RecuaError): Frame[] {
    return [{ data: errorBody(error) }];
  }

  whole(said: readonly WholeAnswer[], finishes: readonly Finish[]): object {
    const { echoes, count, wanted } = this.#asked;
    const chosen = Array.from({ length: finishes.length / count }, (_, prompt) =>
      best(said.slice(prompt * count, (prompt + 1) * count), wanted).map((at) => prompt * count + at),
    ).flat();
    return {
      ...this.#head,
      choices: chosen.map((at, index) => {
        const prompt = Math.floor(at / count);
        const { echo, content, tokens } = said[at]!;
        const told = this.#told(both(said[prompt * count]!.promptTokens, tokens), legacyLists);
        return choice((echoes?.[prompt] ?? echo) + content, index, finishes[at]!.finishReason, told);
      }),
      usage: usageToWire(sumOf(finishes, count)),
      ...ending(finishes),
    };
  }

  /**
   * The beginning of an answer with `echo` and log probabilities, once. The first answer supplies
   * it.
   */
  #begin(index: number, promptTokens: readonly PackedTokens[] | undefined): Begun | undefined {
    const { echoes, count, tells } = this.#asked;
    const prompt = Math.floor(index / count);
    if (promptTokens) this.#prompts[prompt] = promptTokens;
    const tokens = this.#prompts[prompt];
    if (!echoes || tells.logprobs === undefined || !tokens || this.#begun.has(index)) return undefined;
    this.#begun.add(index);
    return { text: echoes[prompt] ?? '', tokens };
  }

  /** A prompt may have so many log probabilities that they come in several chunks. */
  *#beginning({ text, tokens }: Begun, index: number, rest: () => Frame[]): Generator<Frame> {
    for (const [at, piece] of tokens.entries()) yield this.#chunk(at === 0 ? text : '', index, { tokens: piece });
    yield* rest();
  }

  #told<Tokens extends readonly ToldToken[] | ToldList>(
    tokens: Tokens,
    write: (tokens: Tokens) => object,
  ): { logprobs?: object; tokens?: number[] } {
    const { tells } = this.#asked;
    return {
      ...(tells.logprobs === undefined ? {} : { logprobs: write(tokens) }),
      ...(tells.tokens ? { tokens: idsOf(tokens) } : {}),
    };
  }

  #chunk(text: string, index: number, { tokens, progress, soFar }: Delta = {}, finish?: Finish): Frame {
    const told = tokens ? this.#told(unpack(tokens), (these) => (this.#writers[index] ??= new LegacyWriter()).write(these)) : {};
    return {
      data: {
        ...this.#head,
        choices: [choice(text, index, finish?.finishReason ?? null, told)],
        ...(this.#asked.includeUsage ? { usage: null } : {}),
        ...(soFar ? { timings: timingsToWire(soFar.usage, soFar.timings) } : {}),
        ...(progress ? { prompt_progress: progressToWire(progress) } : {}),
        ...(finish === undefined ? {} : ending([finish])),
      },
    };
  }
}

function choice(text: string, index: number, finishReason: FinishReason | null, told: { logprobs?: object; tokens?: number[] }): object {
  return { text, index, logprobs: null, ...told, finish_reason: finishReason };
}

/** The tokens of both. */
function both(first: ToldList, second: ToldList): ToldList {
  const all = new ToldList();
  for (const { pieces } of [first, second]) all.addAll(pieces);
  return all;
}

/** Indices of the `wanted` likeliest by mean log probability; in order if all are wanted. */
function best(said: readonly WholeAnswer[], wanted: number): number[] {
  const all = [...said.keys()];
  if (wanted === said.length) return all;
  const likelihoods = said.map(({ tokens }) => tokens.meanValue());
  return all.sort((a, b) => likelihoods[b]! - likelihoods[a]!).slice(0, wanted);
}
