// What is known of one request, in numbers and names of the server's own: never a word of it.
// Routes note it as they learn it; request-log and server/metrics read it when the response has
// closed.
import type { Response } from 'express';
import type { Finish } from '../../engine/api.js';
import type { Sampling } from '../../engine/protocol.js';
import type { ErrorCode, RecuaError } from '../../errors.js';

/** Hears of an answer while it is written. */
export interface Meter {
  /** Of the whole exchange: the first piece of text, reasoning or call is there. */
  first(): void;
  /** Milliseconds between two pieces of one answer. */
  gap(ms: number): void;
}

/** What models are asked to do, as OpenTelemetry names it where it has a name. */
export type ModelOperation = 'chat' | 'text_completion' | 'embeddings' | 'rerank';

/** How answers are to be drawn, as it holds: also where the request left it to the server. */
export interface Asked {
  stream: boolean;
  /** Answers that are wanted. */
  choices: number;
  maxTokens: number;
  sampling: Pick<Sampling, 'temperature' | 'topP' | 'topK' | 'frequencyPenalty' | 'presencePenalty' | 'seed'>;
}

export interface Facts {
  /** By performance.now(), when its headers were there. */
  readonly startMs: number;
  /** The pattern of its path; absent where no route has it. */
  route?: string;
  operation?: ModelOperation;
  /** The name that the client has for the model. */
  modelAsked?: string | undefined;
  asked?: Asked;
  /** By which clients know the answer. */
  answerId?: string | undefined;
  /** The model that answers it, by the name that the server gives it. */
  model?: string;
  /** By performance.now(), when it asked for its model; absent where that was loaded. */
  loadFromMs?: number;
  /** Milliseconds that it waited for its model to be loaded. */
  loadMs?: number;
  /** By performance.now(), when the engine was asked for each of its answers. */
  begunMs?: number[];
  /** Answers are generated for it. */
  generates?: true;
  meter?: Meter;
  /** Milliseconds until the first piece of an answer. */
  firstMs?: number;
  /** Tokens of each of its answers by now, with its prompt. */
  spent?: number[];
  promptTokens?: number;
  completionTokens?: number | undefined;
  cachedTokens?: number;
  /** All of its answers, where all ended well. */
  finishes?: readonly Finish[];
  code?: ErrorCode;
  /** Of its span, where one is recorded. */
  traceId?: string;
  /** The code with the field's name. */
  error?: string;
}

export function factsOf(res: Response): Facts {
  return (res.locals['facts'] ??= { startMs: performance.now() }) as Facts;
}

/** All that was read and written for it, also where it was cut off. */
export function tokensOf(res: Response): number {
  const { promptTokens, completionTokens = 0, spent = [] } = factsOf(res);
  return promptTokens === undefined ? spent.reduce((sum, one) => sum + (one ?? 0), 0) : promptTokens + completionTokens;
}

/** Of its first prompt; the others differ in their seeds. */
export function noteAsked(res: Response, { sampling, maxTokens }: { sampling: Sampling; maxTokens: number }, more: Pick<Asked, 'stream' | 'choices'>): void {
  const { temperature, topP, topK, frequencyPenalty, presencePenalty, seed } = sampling;
  factsOf(res).asked = { ...more, maxTokens, sampling: { temperature, topP, topK, frequencyPenalty, presencePenalty, seed } };
}

export function noteTokens(res: Response, promptTokens: number, completionTokens?: number): void {
  Object.assign(factsOf(res), { promptTokens, completionTokens });
}

export function noteFinishes(res: Response, finishes: readonly Finish[]): void {
  const sum = (count: (finish: Finish) => number): number => finishes.reduce((all, finish) => all + count(finish), 0);
  noteTokens(res, sum(({ usage }) => usage.promptTokens), sum(({ usage }) => usage.completionTokens));
  Object.assign(factsOf(res), { finishes, cachedTokens: sum(({ usage }) => usage.cachedTokens) });
}

/** The sentence of an error may quote the request: its code and the field's name do not. */
export function noteError(res: Response, { code, param }: RecuaError): void {
  const field = param !== undefined && /^[\w.[\]]{1,80}$/.test(param) ? ` at ${param}` : '';
  Object.assign(factsOf(res), { code, error: ` ${code}${field}` });
}
