// The other side of the dialect, for commands that ask a running server: the engine's words for a
// request → a body, and the events that come back → deltas and how it ended. Pure. Called by cli/.
import type { Finish } from '../../engine/api.js';
import type { ChatRequest, Constraint, Delta } from '../../engine/protocol.js';
import { RecuaError, errorTable } from '../../errors.js';
import type { ErrorCode } from '../../errors.js';
import { writeSampling } from '../../request/sampling-fields.js';
import type { ChatCompletionChunk } from './answer.js';

export const chatPath = '/v1/chat/completions';
/** Takes the same body, and answers how many tokens its prompt has. */
export const chatTokensPath = '/v1/chat/completions/input_tokens';

/** Everything is stated, so that no default of the server's counts. */
export function writeChatBody(request: ChatRequest, model: string): Record<string, unknown> {
  const { messages, tools, constraint, sampling, maxTokens, stop, enableThinking, templateKwargs, template, generateMs } = request;
  if (template !== '' || tools !== '') throw new RecuaError('invalid_argument', 'A request with a template or tools of its own cannot be sent to a server.');
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

/** The data of each event of a stream. */
export async function* eventsOf(body: AsyncIterable<Uint8Array | string>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const bytes of body) {
    // Only a line feed ends a line: texts may hold what other readers take for one.
    const lines = (rest + (typeof bytes === 'string' ? bytes : decoder.decode(bytes, { stream: true }))).split('\n');
    rest = lines.pop()!;
    for (const line of lines) if (line.startsWith('data: ')) yield line.slice('data: '.length);
  }
}

/** One streamed answer, event by event. */
export class ChatReader {
  #last: ChatCompletionChunk | undefined;
  #usage: ChatCompletionChunk['usage'];
  #whole = false;

  /** What is new, if anything is. Throws the error that the event tells. */
  read(data: string): Delta | undefined {
    if (data === '[DONE]') {
      this.#whole = true;
      return undefined;
    }
    const chunk = JSON.parse(data) as ChatCompletionChunk | { error: unknown };
    if ('error' in chunk) throw readError(chunk) ?? new RecuaError('internal_error', `The server told an error that is none of Recua's: ${data}`);
    this.#usage = chunk.usage ?? this.#usage;
    const [choice] = chunk.choices;
    if (!choice) return undefined;
    if (choice.finish_reason !== null) this.#last = chunk;
    const { content, reasoning_content: reasoning } = choice.delta;
    if (!content && !reasoning) return undefined;
    return { ...(content ? { content } : {}), ...(reasoning ? { reasoning } : {}) };
  }

  /**
   * How it ended, but for what the wire does not tell: the wait in the queue, and the seed.
   * Undefined where the answer is not whole.
   */
  finish(): Finish | undefined {
    const [chunk, usage] = [this.#last, this.#usage];
    if (!this.#whole || !chunk || !usage) return undefined;
    const { reasoning_tokens: reasoning, accepted_prediction_tokens: accepted, rejected_prediction_tokens: rejected } = usage.completion_tokens_details ?? {};
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

/** The error that an error body tells; undefined where it is none of ours. */
export function readError(body: unknown): RecuaError | undefined {
  const { code, message, param, type: _, ...more } = ((body as { error?: unknown } | null)?.error ?? {}) as Record<string, unknown>;
  if (typeof message !== 'string' || typeof code !== 'string' || !Object.hasOwn(errorTable, code)) return undefined;
  const details = Object.fromEntries(Object.entries(more).filter((entry): entry is [string, number | string] => ['number', 'string'].includes(typeof entry[1])));
  const error = new RecuaError(code as ErrorCode, message, { param: typeof param === 'string' ? param : undefined, details });
  // It happened in the server, whose log has where.
  delete error.stack;
  return error;
}
