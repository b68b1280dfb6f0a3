// Writes answers in Ollama's format, from the engine's deltas and numbers: one object or many.
// Called by server/exchange. The counterpart of chat-request.
import type { Finish } from '../../engine/api.js';
import type { Delta } from '../../engine/protocol.js';
import { unpack } from '../../engine/packed-tokens.js';
import type { ToldToken } from '../../engine/telling.js';
import { WholeAnswer } from '../../engine/whole-answer.js';
import type { RecuaError } from '../../errors.js';
import { wholeArguments } from '../exchange/cut-json.js';
import type { AnswerWriter, AskedRest } from '../exchange/dialect.js';
import { toldTokens, type WireTold } from '../exchange/logprobs.js';
import { jsonParts, type LongList } from '../http/long-json.js';
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
    const { calls, cut, warnings } = callsOf(this.#said);
    return [
      ...(calls.length === 0 && cut === '' ? [] : [exact(this.#frame({ content: cut, ...(calls.length === 0 ? {} : { calls }) }))]),
      { data: { ...this.#head(), ...this.part({ content: '' }), ...this.#end(finish, warnings) } },
    ];
  }

  failure(error: RecuaError): Frame[] {
    return [{ data: errorBody(error) }];
  }

  whole([said]: readonly [WholeAnswer], [finish]: readonly [Finish]): object {
    const { calls, cut, warnings } = callsOf(said);
    const part = { content: said.content + cut, ...(said.reasoning === '' ? {} : { thinking: said.reasoning }), ...(calls.length === 0 ? {} : { calls }) };
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

/**
 * Clients run every call that they get, and know no other mark of a cut one than a warning: so its
 * text becomes content.
 */
function callsOf({ toolCalls }: WholeAnswer): { calls: object[]; cut: string; warnings: string[] } {
  const warnings: string[] = [];
  let cut = '';
  const calls = toolCalls.flatMap(({ id, name, arguments: text }, index) => {
    const value = wholeArguments(text);
    if (value) return [{ id, function: { index, name, arguments: value } }];
    warnings.push(`The call of ${name} was cut off; the part that exists is given as plain content.`);
    cut += `${name} ${text}`;
    return [];
  });
  return { calls, cut, warnings };
}

/** The frame with the numbers of calls as the model wrote them. */
function exact({ data }: Frame): Frame {
  return { data: [...jsonParts(data as object)].join('') };
}

function nanoseconds(ms: number): number {
  return Math.round(ms * 1_000_000);
}
