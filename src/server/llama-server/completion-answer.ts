// Writes completions in llama-server's own format. Pure. Called by server/exchange. The counterpart
// of completion-request.
import type { Finish } from '../../engine/api.js';
import type { Delta, ModelDescription } from '../../engine/protocol.js';
import { idsOf, unpack } from '../../engine/packed-tokens.js';
import type { WholeAnswer } from '../../engine/whole-answer.js';
import type { RecuaError } from '../../errors.js';
import type { AnswerWriter, AskedRest } from '../exchange/dialect.js';
import { toldTokens } from '../exchange/logprobs.js';
import { errorBody } from '../http/error-reply.js';
import type { Frame } from '../http/stream.js';
import { progressToWire, timingsToWire } from '../openai/answer.js';
import type { NativeBody } from './completion-request.js';
import { generationSettings } from './settings.js';

/** The engine does not report its sequence, since an answer may move while it runs. */
const noSlot = -1;

/** What a stream has sent of one answer. */
interface Told {
  prompt: string;
  text: string;
  tokens: number;
}

export class NativeWriter implements AnswerWriter {
  readonly #asked: AskedRest<NativeBody>;
  readonly #model: string;
  #contextSize = Infinity;
  #promptTokens = 0;
  readonly #told: Told[] = [];

  constructor(asked: AskedRest<NativeBody>, model: string) {
    this.#asked = asked;
    this.#model = model;
  }

  computedBy({ contextSize }: Pick<ModelDescription, 'contextSize'>): void {
    this.#contextSize = contextSize;
  }

  accepted(promptTokens: number): void {
    this.#promptTokens = promptTokens;
  }

  opening(): Frame[] {
    return [];
  }

  ping(): Frame {
    return this.#chunk({}, 0);
  }

  deltas(delta: Delta, index: number): Frame[] {
    const told = this.#toldOf(index);
    told.prompt += delta.echo ?? '';
    told.text += delta.content ?? '';
    told.tokens += delta.tokens?.count ?? 0;
    return !delta.content && !delta.tokens && !delta.progress ? [] : [this.#chunk(delta, index)];
  }

  ended(finish: Finish, index: number): Frame[] {
    const { prompt, text } = this.#toldOf(index);
    return [{ data: { ...this.#final(finish, index, prompt, text), content: '' } }];
  }

  ending(): Frame[] {
    return [];
  }

  failure(error: RecuaError): Frame[] {
    return [{ data: errorBody(error) }];
  }

  whole(said: readonly WholeAnswer[], finishes: readonly Finish[]): object {
    const { tells, returnTokens } = this.#asked;
    const all = finishes.map((finish, index) => {
      const { content, tokens, echo } = said[index]!;
      return this.#wanted({
        ...this.#final(finish, index, echo, content),
        ...(returnTokens ? { tokens: idsOf(tokens) } : {}),
        ...(tells.logprobs === undefined || tokens.length === 0 ? {} : { completion_probabilities: toldTokens(tokens, tells) }),
      });
    });
    return all.length === 1 ? all[0]! : all;
  }

  #toldOf(index: number): Told {
    return (this.#told[index] ??= { prompt: '', text: '', tokens: 0 });
  }

  #chunk({ content = '', tokens: packed, progress, soFar }: Delta, index: number): Frame {
    const { tells } = this.#asked;
    const tokens = packed ? unpack(packed) : [];
    return {
      data: {
        index,
        content,
        tokens: idsOf(tokens),
        stop: false,
        id_slot: noSlot,
        tokens_predicted: this.#toldOf(index).tokens,
        tokens_evaluated: this.#promptTokens,
        ...(soFar ? { timings: timingsToWire(soFar.usage, soFar.timings) } : {}),
        ...(progress ? { prompt_progress: progressToWire(progress) } : {}),
        ...(tells.logprobs === undefined || tokens.length === 0 ? {} : { completion_probabilities: toldTokens(tokens, tells) }),
      },
    };
  }

  #final(
    { finishReason, stop, usage, timings, seed, warnings }: Finish,
    index: number,
    echo: string,
    text: string,
  ): Record<string, unknown> {
    const { settings, texts, count } = this.#asked;
    const held = usage.promptTokens + usage.completionTokens;
    return {
      index,
      content: text,
      tokens: [],
      id_slot: noSlot,
      stop: true,
      model: this.#model,
      tokens_predicted: usage.completionTokens,
      tokens_evaluated: usage.promptTokens,
      generation_settings: generationSettings({ ...settings, seed }),
      prompt: texts[Math.floor(index / count)] ?? echo,
      has_new_line: text.includes('\n'),
      truncated: finishReason === 'length' && held >= this.#contextSize,
      stop_type: finishReason === 'length' ? 'limit' : stop === undefined ? 'eos' : 'word',
      stopping_word: stop ?? '',
      // The last token was sampled but not evaluated.
      tokens_cached: Math.max(usage.promptTokens, held - 1),
      timings: timingsToWire(usage, timings),
      ...(warnings.length > 0 ? { warnings } : {}),
    };
  }

  /** Selects `response_fields`; the value of a path is stored under its last name. */
  #wanted(answer: Record<string, unknown>): Record<string, unknown> {
    const { responseFields } = this.#asked;
    if (responseFields.length === 0) return answer;
    const found: [string, unknown][] = [];
    for (const path of responseFields) {
      const names = path.split('/');
      const value = names.reduce<unknown>(
        (at, name) =>
          typeof at === 'object' && at !== null && Object.hasOwn(at, name) ? (at as Record<string, unknown>)[name] : undefined,
        answer,
      );
      if (value !== undefined) found.push([names.at(-1)!, value]);
    }
    return Object.fromEntries(found);
  }
}
