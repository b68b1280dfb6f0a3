// Ollama's words on the way out: the engine's deltas and numbers → objects, one or many. Called by
// server/exchange. The way in is chat-request.
import type { Finish } from '../../engine/api.js';
import type { Delta } from '../../engine/protocol.js';
import { WholeAnswer } from '../../engine/whole-answer.js';
import type { RecuaError } from '../../errors.js';
import type { AnswerWriter, AskedRest } from '../exchange/dialect.js';
import type { Frame } from '../http/stream.js';
import type { OllamaBody } from './chat-request.js';
import { errorBody } from './error-body.js';

/** What of an answer is in one object. */
interface Part {
  content: string;
  thinking?: string;
  calls?: object[];
}

abstract class Writer implements AnswerWriter {
  readonly #model: string;
  readonly #asked: AskedRest<OllamaBody>;
  readonly #sinceMs = performance.now();
  #loadMs = 0;
  /** Calls that came so far: their arguments are told whole. */
  readonly #said = new WholeAnswer();

  constructor(asked: AskedRest<OllamaBody>, model: string) {
    this.#asked = asked;
    this.#model = model;
  }

  /** How the route holds what is said. */
  protected abstract part(part: Part): object;

  computedBy(): void {
    this.#loadMs = performance.now() - this.#sinceMs;
  }

  opening(): Frame[] {
    return [];
  }

  ping(): Frame {
    return this.#frame({ content: '' });
  }

  deltas({ reasoning, content, toolCalls }: Delta): Frame[] {
    if (toolCalls) this.#said.add({ toolCalls });
    return [
      ...(reasoning ? [this.#frame({ content: '', thinking: reasoning })] : []),
      ...(content ? [this.#frame({ content })] : []),
    ];
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
    return { ...this.#head(), ...this.part(part), ...this.#end(finish, warnings) };
  }

  #frame(part: Part): Frame {
    return { data: { ...this.#head(), ...this.part(part), done: false } };
  }

  #head(): object {
    return { model: this.#model, created_at: new Date().toISOString() };
  }

  /** Durations are in nanoseconds. */
  #end({ finishReason, usage, timings, warnings }: Finish, more: string[]): object {
    const all = [...this.#asked.warnings, ...warnings, ...more];
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

/** Arguments are objects here: those that are none are told as warnings. */
function callsOf({ toolCalls }: WholeAnswer): { calls: object[]; warnings: string[] } {
  const warnings: string[] = [];
  const calls = toolCalls.map(({ id, name, arguments: text }, index) => {
    let given: unknown;
    try {
      given = JSON.parse(text);
    } catch {
      warnings.push(`The arguments of the call of ${name} are not complete: ${text}`);
    }
    return { id, function: { index, name, arguments: given ?? {} } };
  });
  return { calls, warnings };
}

function nanoseconds(ms: number): number {
  return Math.round(ms * 1_000_000);
}
