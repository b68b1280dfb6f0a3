// OpenAI's words for completions on the way out: the engine's deltas and numbers → text. Pure, but
// for new ids. Called by server/exchange. The way in is completion-request.
import { randomBytes } from 'node:crypto';
import type { Finish } from '../../engine/api.js';
import type { Delta, FinishReason, ModelDescription } from '../../engine/protocol.js';
import type { WholeAnswer } from '../../engine/whole-answer.js';
import type { RecuaError } from '../../errors.js';
import type { AnswerWriter, AskedRest } from '../exchange/dialect.js';
import { errorBody } from '../http/error-reply.js';
import type { Frame } from '../http/stream.js';
import { ending, sumOf, usageToWire } from './answer.js';
import type { CompletionBody } from './completion-request.js';

export class CompletionWriter implements AnswerWriter {
  readonly #head: { id: string; object: 'text_completion'; created: number; model: string; system_fingerprint?: string };
  readonly #asked: AskedRest<CompletionBody>;

  constructor(asked: AskedRest<CompletionBody>, model: string) {
    this.#asked = asked;
    this.#head = { id: `cmpl-${randomBytes(12).toString('hex')}`, object: 'text_completion', created: Math.floor(Date.now() / 1000), model };
  }

  computedBy({ llamaCpp }: Pick<ModelDescription, 'llamaCpp'>): void {
    this.#head.system_fingerprint = `llama.cpp-${llamaCpp}`;
  }

  opening(): Frame[] {
    const { echoes, count } = this.#asked;
    return (echoes ?? []).flatMap((text, prompt) => Array.from({ length: count }, (_, at) => this.#chunk(text, prompt * count + at)));
  }

  ping(): Frame {
    return this.#chunk('', 0);
  }

  deltas({ content }: Delta, index: number): Frame[] {
    return content ? [this.#chunk(content, index)] : [];
  }

  ended(finish: Finish, index: number): Frame[] {
    return [this.#chunk('', index, finish)];
  }

  ending(finishes: readonly Finish[]): Frame[] {
    const usage = { ...this.#head, choices: [], usage: usageToWire(sumOf(finishes, this.#asked.count)) };
    return [...(this.#asked.includeUsage ? [{ data: usage }] : []), { data: '[DONE]' }];
  }

  /** The missing [DONE] says that the answer is not whole. */
  failure(error: RecuaError): Frame[] {
    return [{ data: errorBody(error) }];
  }

  whole(said: readonly WholeAnswer[], finishes: readonly Finish[]): object {
    const { echoes, count } = this.#asked;
    return {
      ...this.#head,
      choices: finishes.map(({ finishReason }, index) => (
        choice((echoes?.[Math.floor(index / count)] ?? '') + said[index]!.content, index, finishReason)
      )),
      usage: usageToWire(sumOf(finishes, count)),
      ...ending(finishes),
    };
  }

  #chunk(text: string, index: number, finish?: Finish): Frame {
    return {
      data: {
        ...this.#head,
        choices: [choice(text, index, finish?.finishReason ?? null)],
        ...(this.#asked.includeUsage ? { usage: null } : {}),
        ...(finish === undefined ? {} : ending([finish])),
      },
    };
  }
}

function choice(text: string, index: number, finishReason: FinishReason | null): object {
  return { text, index, logprobs: null, finish_reason: finishReason };
}
