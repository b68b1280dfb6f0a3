// Writes answers in Ollama's format, from the engine's deltas and numbers: one object or many.
// Called by server/exchange. The counterpart of chat-request.
import type { Finish } from '../../engine/api.js';
import type { Delta } from '../../engine/protocol.js';
import { unpack } from '../../engine/packed-tokens.js';
import type { ToldToken } from '../../engine/telling.js';
import { WholeAnswer } from '../../engine/whole-answer.js';
import type { RecuaError } from '../../errors.js';
import { argumentsOf } from '../exchange/cut-json.js';
import type { AnswerWriter, AskedRest } from '../exchange/dialect.js';
import { toldTokens, type WireTold } from '../exchange/logprobs.js';
import type { LongList } from '../http/long-json.js';
import type { Frame } from '../http/stream.js';
import type { OllamaBody } from './chat-request.js';
import { errorBody } from './error-body.js';

/** The part of an answer in one object. */
interface Part {
  content: string;
  thinking?: string;
  calls?: object[];
}

abstract class Writer implements AnswerWriter {
  readonly #model: string;
  readonly #asked: AskedRest<OllamaBody>;
  #sinceMs = performance.now();
  #loadMs = 0;
  /** Calls so far. Their arguments are sent once they are complete. */
  readonly #said = new WholeAnswer();

  constructor(asked: AskedRest<OllamaBody>, model: string) {
    this.#asked = asked;
    this.#model = model;
  }

  /** The fields of the route for this part. */
  protected abstract part(part: Part): object;

  computedBy(_: unknown, loadMs: number): void {
    this.#loadMs = loadMs;
    this.#sinceMs = performance.now() - loadMs;
  }

  opening(): Frame[] {
    return [];
  }

  ping(): Frame {
    return this.#frame({ content: '' });
  }

  deltas({ reasoning, content, toolCalls, tokens }: Delta): Frame[] {
    if (toolCalls) this.#said.add({ toolCalls });
    const logprobs = this.#logprobs(tokens ? unpack(tokens) : []);
    const parts: Part[] = [...(reasoning ? [{ content: '', thinking: reasoning }] : []), ...(content ? [{ content }] : [])];
    // Tokens without text, such as the end of the answer.
    if (parts.length === 0 && tokens) parts.push({ content: '' });
    return parts.map((part, index) => this.#frame(part, index === parts.length - 1 ? logprobs : {}));
  }

  ending([finish]: readonly [Finish]): Frame[] {
    const { calls, warnings } = callsOf(this.#said);
    return [
      ...(calls.length === 0 ? [] : [this.#frame({ content: '', calls })]),
      { data: { ...this.#head(), ...this.part({ content: '' }), ...this.#end(finish, warnings) } },
    ];
  }

  failure(error: RecuaError): Frame[] {
    return [{ data: errorBody(error) }];
  }

  whole([said]: readonly [WholeAnswer], [finish]: readonly [Finish]): object {
    const { calls, warnings } = callsOf(said);
    const part = { content: said.content, ...(said.reasoning === '' ? {} : { thinking: said.reasoning }), ...(calls.length === 0 ? {} : { calls }) };
    return { ...this.#head(), ...this.part(part), ...this.#logprobs(said.tokens), ...this.#end(finish, warnings) };
  }

  #frame(part: Part, logprobs: object = {}): Frame {
    return { data: { ...this.#head(), ...this.part(part), ...logprobs, done: false } };
  }

  #logprobs(tokens: Iterable<ToldToken>): { logprobs?: LongList<WireTold> } {
    const { tells } = this.#asked;
    return tells.logprobs === undefined ? {} : { logprobs: toldTokens(tokens, tells) };
  }

  #head(): object {
    return { model: this.#model, created_at: new Date().toISOString() };
  }

  /** Durations are in nanoseconds. */
  #end({ finishReason, usage, timings, warnings }: Finish, more: string[]): object {
    const all = [...warnings, ...more];
    return {
      done: true,
      done_reason: finishReason === 'length' ? 'length' : 'stop',
      total_duration: nanoseconds(performance.now() - this.#sinceMs),
      load_duration: nanoseconds(this.#loadMs),
      prompt_eval_count: usage.promptTokens,
      prompt_eval_duration: nanoseconds(timings.promptMs),
      eval_count: usage.completionTokens,
      eval_duration: nanoseconds(timings.generateMs),
      ...(usage.reasoningTokens === undefined ? {} : { reasoning_tokens: usage.reasoningTokens }),
      ...(all.length === 0 ? {} : { warnings: all }),
    };
  }
}

export class ChatWriter extends Writer {
  protected part({ content, thinking, calls }: Part): object {
    return { message: { role: 'assistant', content, ...(thinking === undefined ? {} : { thinking }), ...(calls === undefined ? {} : { tool_calls: calls }) } };
  }
}

export class GenerateWriter extends Writer {
  protected part({ content, thinking }: Part): object {
    return { response: content, ...(thinking === undefined ? {} : { thinking }) };
  }
}

/** Arguments are objects in Ollama's format. Incomplete JSON becomes a warning. */
function callsOf({ toolCalls }: WholeAnswer): { calls: object[]; warnings: string[] } {
  const warnings: string[] = [];
  const calls = toolCalls.map(({ id, name, arguments: text }, index) => {
    const { value, isWhole } = argumentsOf(text);
    if (!isWhole) warnings.push(`The arguments of the call of ${name} are incomplete: ${text}`);
    return { id, function: { index, name, arguments: value } };
  });
  return { calls, warnings };
}

function nanoseconds(ms: number): number {
  return Math.round(ms * 1_000_000);
}
