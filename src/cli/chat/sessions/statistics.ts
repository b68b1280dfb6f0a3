// What /tokens and /stats show: numbers of the last answer and of this run of the chat, collected
// by the dialogue.
import wrapAnsi from 'wrap-ansi';
import type { Finish } from '../../../engine/api.js';
import type { SavedState } from '../../../engine/protocol.js';
import type { Answerer } from '../../answering/answerer.js';
import type { TemplateName } from '../../../models/chat-templates.js';
import type { AnswerSettings } from '../../flags/answer-flags.js';
import { tokensPerSecond } from '../../single-turn.js';
import { moreParameters } from '../parameters.js';
import { endedBecause } from './transcript.js';
import type { SavedReply } from './conversation.js';

/** The numbers of an answer; for a stopped answer, those that are known. */
export interface Counted {
  promptTokens: number;
  completionTokens: number;
  cachedTokens?: number;
  timings?: Finish['timings'];
  seed?: number;
  ended: SavedReply['ended'];
}

/** A narrower column is worse than no wrapping. */
const leastRoom = 20;

const uncounted = 'The last answer was interrupted, and its tokens could not be counted.';
const unknown = 'The next answer shows how many are in use.';

/** From this fill level on, the user is warned. */
const nearlyFull = 0.85;

export class Statistics {
  /** The answerer whose context is in use. */
  model: Pick<Answerer, 'description' | 'contextSize'>;
  #last: Counted | undefined;
  /** The last answer was interrupted, and its tokens could not be counted. */
  #isUncounted = false;
  #answers = 0;
  #generated = 0;
  #evaluated = 0;
  #cached = 0;
  /** The result of restoring the saved KV cache. */
  restored: SavedState | undefined;

  constructor(model: Pick<Answerer, 'description' | 'contextSize'>) {
    this.model = model;
  }

  add(counted: Counted): void {
    this.#last = counted;
    this.#isUncounted = false;
    this.#answers++;
    this.#generated += counted.completionTokens;
    this.#cached += counted.cachedTokens ?? 0;
    this.#evaluated += counted.promptTokens - (counted.cachedTokens ?? 0);
  }

  /** Records an interrupted answer whose number of tokens is unknown. */
  addUncounted(): void {
    this.#last = undefined;
    this.#isUncounted = true;
    this.#answers++;
  }

  /** Call when the conversation changes. */
  reset(): void {
    this.#last = undefined;
    this.#isUncounted = false;
    this.restored = undefined;
  }

  /** Tokens of the context in use; undefined before the first answer. */
  get used(): number | undefined {
    return this.#last && this.#last.promptTokens + this.#last.completionTokens;
  }

  /** A warning, once the context is nearly full. */
  warning(): string | undefined {
    const { used } = this;
    if (used === undefined || used < nearlyFull * this.model.contextSize) return undefined;
    return `The context is nearly full: ${this.#fill(used)}. /undo removes the last exchange, /clear starts over.`;
  }

  tokens(columns: number): string {
    const last = this.#last;
    if (!last) return `${this.#isUncounted ? `${uncounted} ` : ''}The context holds ${this.model.contextSize} tokens. ${unknown}`;
    return table([
      ['Prompt', `${last.promptTokens} tokens${last.cachedTokens === undefined ? '' : `, ${last.cachedTokens} of them cached`}`],
      ['Generated', `${last.completionTokens} tokens`],
      ['Context', this.#fill(this.used!)],
      ['All answers', `${this.#answers}: ${this.#evaluated} prompt tokens evaluated, ${this.#cached} cached, ${this.#generated} generated`],
    ], columns);
  }

  stats(template: TemplateName, settings: AnswerSettings, columns: number): string {
    const last = this.#last;
    const { description, contextSize } = this.model;
    const rows: [string, string][] = [['Model', description], ['Template', template], ['Sampling', sampling(settings)]];
    if (last) {
      const { timings } = last;
      const speed =
        timings && tokensPerSecond({ usage: { promptTokens: 0, cachedTokens: 0, completionTokens: last.completionTokens }, timings });
      rows.push(
        ['Prompt', `${last.promptTokens} tokens${last.cachedTokens === undefined ? '' : `, ${last.cachedTokens} of them cached`}${timings ? `, read in ${milliseconds(timings.promptMs)}` : ''}`],
        ['Generated', `${last.completionTokens} tokens${timings ? ` in ${milliseconds(timings.generateMs)}` : ''}${speed ? `, ${speed} tokens per second` : ''}`],
        ...(timings ? [['First token', `after ${milliseconds(timings.queueMs + timings.promptMs)}`] as [string, string]] : []),
        ['Ended', last.ended === 'stop' ? 'by itself' : endedBecause(last.ended)],
        ...(last.seed === undefined ? [] : [['Seed', String(last.seed)] as [string, string]]),
        ['Context', this.#fill(this.used!)],
      );
    } else rows.push(['Context', `${contextSize} tokens. ${unknown}`]);
    if (this.restored) {
      const { tokens, reason } = this.restored;
      rows.push(['Saved KV', tokens > 0 ? `${tokens} tokens restored` : `not used${reason === undefined ? '' : `: ${reason}`}`]);
    }
    return table(rows, columns);
  }

  #fill(used: number): string {
    const { contextSize } = this.model;
    return `${used} of ${contextSize} tokens (${Math.round(used / contextSize * 100)}%)`;
  }
}

function sampling({ temperature, topP, topK, minP, repeatPenalty, seed, maxTokens, more = {}, stop }: AnswerSettings): string {
  const others = [...moreParameters.filter(({ key }) => Object.hasOwn(more, key)).map((one) => `, ${one.name} ${more[one.key as keyof typeof more]}`), ...(stop ? [`, stop ${JSON.stringify(stop)}`] : [])];
  return `temperature ${temperature}, top-p ${topP}, top-k ${topK}, min-p ${minP}, repeat penalty ${repeatPenalty}, seed ${seed === 0 ? 'random' : seed}, at most ${maxTokens} tokens${others.join('')}`;
}

function milliseconds(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`;
}

/** Labels and values. A value that is too long is wrapped below itself, if there is room. */
export function table(rows: readonly (readonly [string, string])[], columns = Infinity): string {
  const indent = Math.max(...rows.map(([label]) => label.length)) + 2;
  const room = columns - indent;
  const wrapped = (value: string) => (room === Infinity || room < leastRoom ? value : wrapAnsi(value, room, { hard: true }).replaceAll('\n', `\n${' '.repeat(indent)}`));
  return rows.map(([label, value]) => `${label.padEnd(indent)}${wrapped(value)}`).join('\n');
}
