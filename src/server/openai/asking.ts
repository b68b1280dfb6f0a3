// The client side of the dialect, for commands that use a running server: the engine's request → a
// body, and the events of the reply → deltas and the finish. Pure. Called by cli/.
import type { Finish } from '../../engine/api.js';
import type { ChatRequest, Constraint, Delta } from '../../engine/protocol.js';
import { RecuaError, errorTable } from '../../errors.js';
import type { ErrorCode } from '../../errors.js';
import { writeSampling } from '../../request/sampling-fields.js';
import type { ChatCompletionChunk } from './answer.js';

export const chatPath = '/v1/chat/completions';
/** Takes the same body and returns the number of prompt tokens. */
export const chatTokensPath = '/v1/chat/completions/input_tokens';

/** Sets every field, so that no default of the server applies. */
export function writeChatBody(request: ChatRequest, model: string): Record<string, unknown> {
  const { messages, tools, constraint, sampling, maxTokens, stop, enableThinking, templateKwargs, template, generateMs } = request;
  if (template !== '' || tools !== '') throw new RecuaError('invalid_argument', 'A request with its own template or tools cannot be sent to a server.');
  return {
    model,
    messages: JSON.parse(messages) as unknown,
    stream: true,
    stream_options: { include_usage: true },
    max_tokens: maxTokens,
    ...writeSampling(sampling),
    ...(stop.length === 0 ? {} : { stop }),
    ...writeConstraint(constraint),
    enable_thinking: enableThinking,
    ...(Object.keys(templateKwargs).length === 0 ? {} : { chat_template_kwargs: templateKwargs }),
    ...(generateMs === undefined ? {} : { t_max_predict_ms: generateMs }),
  };
}

function writeConstraint(constraint: Constraint): Record<string, unknown> {
  switch (constraint.kind) {
    case 'none':
      return {};
    case 'grammar':
      return { grammar: constraint.grammar };
    case 'schema': {
      const { schema, strict } = constraint;
      return { response_format: { type: 'json_schema', json_schema: { name: 'answer', strict, schema: JSON.parse(schema) as unknown } } };
    }
  }
}

/** Limit for one event. Text comes in pieces, and the last event only has counts. */
const longestLine = 16 * 1024 * 1024;

/** The data of the last event. The connection may stay open after it, as behind some proxies. */
const lastEvent = '[DONE]';

/** The data of each event of a stream. Throws `server_unreachable` for an endless event. */
export async function* eventsOf(body: AsyncIterable<Uint8Array | string>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  /** Pieces of an incomplete line, joined once it is complete. */
  let begun: string[] = [];
  let length = 0;
  for await (const bytes of body) {
    // Only a line feed ends a line here; texts may contain other line separators.
    const [first, ...others] = (typeof bytes === 'string' ? bytes : decoder.decode(bytes, { stream: true })).split('\n') as [string, ...string[]];
    begun.push(first);
    length += first.length;
    if (length > longestLine) throw strange('an event without end');
    if (others.length === 0) continue;
    const last = others.pop()!;
    for (const line of [begun.join(''), ...others]) {
      if (!line.startsWith('data: ')) continue;
      const event = line.slice('data: '.length);
      yield event;
      if (event === lastEvent) return;
    }
    begun = [last];
    length = last.length;
  }
}

function strange(what: string): RecuaError {
  return new RecuaError('server_unreachable', `The server sent ${what} instead of an answer: it is not a Recua server, or has another version.`);
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);
const isText = (value: unknown): boolean => value === undefined || value === null || typeof value === 'string';
const isCount = (value: unknown): boolean => typeof value === 'number' && value >= 0;
const areCounts = (value: unknown): boolean => value === undefined || (isObject(value) && Object.values(value).every(isCount));

/** Checks the fields that ChatReader uses; all others may be anything. */
function isChunk(value: Record<string, unknown>): boolean {
  const { choices, usage, timings, warnings } = value;
  const isChoice = (one: unknown): boolean => isObject(one) && isText(one['finish_reason']) && isObject(one['delta']) && isText(one['delta']['content']) && isText(one['delta']['reasoning_content']);
  const isUsage = (one: unknown): boolean => (
    isObject(one) && isCount(one['prompt_tokens']) && isCount(one['completion_tokens'])
    && isObject(one['prompt_tokens_details']) && isCount(one['prompt_tokens_details']['cached_tokens']) && areCounts(one['completion_tokens_details'])
  );
  return Array.isArray(choices) && choices.every(isChoice) && (usage === undefined || usage === null || isUsage(usage))
    && areCounts(timings) && (warnings === undefined || (Array.isArray(warnings) && warnings.every((one) => typeof one === 'string')));
}

function readEvent(data: string): ChatCompletionChunk | { error: unknown } {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    throw strange('an event that is not JSON');
  }
  if (!isObject(value) || !('error' in value || isChunk(value))) throw strange('an event of another kind');
  return value as unknown as ChatCompletionChunk | { error: unknown };
}

/** One streamed answer, event by event. */
export class ChatReader {
  #last: ChatCompletionChunk | undefined;
  #usage: ChatCompletionChunk['usage'];
  #whole = false;

  /**
   * The new part of the answer, if any. Throws the error that the event reports, and
   * `server_unreachable` for an event that is not from a Recua server.
   */
  read(data: string): Delta | undefined {
    if (data === lastEvent) {
      this.#whole = true;
      return undefined;
    }
    const chunk = readEvent(data);
    if ('error' in chunk) throw readError(chunk) ?? new RecuaError('internal_error', `The server sent an error that Recua does not know: ${data}`);
    this.#usage = chunk.usage ?? this.#usage;
    const [choice] = chunk.choices;
    if (!choice) return undefined;
    if (typeof choice.finish_reason === 'string') this.#last = chunk;
    const { content, reasoning_content: reasoning } = choice.delta;
    if (!content && !reasoning) return undefined;
    return { ...(content ? { content } : {}), ...(reasoning ? { reasoning } : {}) };
  }

  /**
   * The finish, without the queue time and the seed, which are not on the wire. Undefined if the
   * answer is incomplete.
   */
  finish(): Finish | undefined {
    const [chunk, usage] = [this.#last, this.#usage];
    if (!this.#whole || !chunk || !usage) return undefined;
    const {
      reasoning_tokens: reasoning,
      accepted_prediction_tokens: accepted,
      rejected_prediction_tokens: rejected,
    } = usage.completion_tokens_details ?? {};
    return {
      finishReason: chunk.choices[0]!.finish_reason!,
      usage: {
        promptTokens: usage.prompt_tokens,
        cachedTokens: usage.prompt_tokens_details.cached_tokens,
        completionTokens: usage.completion_tokens,
        ...(reasoning === undefined ? {} : { reasoningTokens: reasoning }),
        ...(accepted === undefined || rejected === undefined ? {} : { draftedTokens: accepted + rejected, acceptedTokens: accepted }),
      },
      timings: { queueMs: 0, promptMs: chunk.timings?.prompt_ms ?? 0, generateMs: chunk.timings?.predicted_ms ?? 0 },
      seed: 0,
      warnings: chunk.warnings ?? [],
    };
  }
}

/** The error in an error body; undefined if it is not one of ours. */
export function readError(body: unknown): RecuaError | undefined {
  const { code, message, param, type: _, ...more } = ((body as { error?: unknown } | null)?.error ?? {}) as Record<string, unknown>;
  if (typeof message !== 'string' || typeof code !== 'string' || !Object.hasOwn(errorTable, code)) return undefined;
  const details = Object.fromEntries(Object.entries(more).filter((entry): entry is [string, number | string] => ['number', 'string'].includes(typeof entry[1])));
  const error = new RecuaError(code as ErrorCode, message, { param: typeof param === 'string' ? param : undefined, details });
  // It happened in the server, whose log has the stack.
  delete error.stack;
  return error;
}
