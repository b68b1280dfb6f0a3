// Facts about one request: numbers and the server's own names, but no text of the request. Routes
// note them as they learn them; request-log and server/metrics read them when the response closes.
import type { Response } from 'express';
import type { Answer, Finish } from '../../engine/api.js';
import type { Sampling } from '../../engine/protocol.js';
import type { ErrorCode, RecuaError } from '../../errors.js';
import { notesOf } from '../notes/notes.js';

/** Receives events of an answer while it is generated. */
export interface Meter {
  /** The exchange has its first piece of text, reasoning or call. */
  first(): void;
  /** Milliseconds between two pieces of one answer. */
  gap(ms: number): void;
}

/** The kind of request, by OpenTelemetry's name if it has one. */
export type ModelOperation = 'chat' | 'text_completion' | 'embeddings' | 'rerank';

/** The settings in effect, whether from the request or from the server's defaults. */
export interface Asked {
  stream: boolean;
  /** Number of answers. */
  choices: number;
  maxTokens: number;
  sampling: Pick<Sampling, 'temperature' | 'topP' | 'topK' | 'frequencyPenalty' | 'presencePenalty' | 'seed'>;
}

export interface Facts {
  /** When its headers arrived, by performance.now(). */
  readonly startMs: number;
  /** The pattern of its path; absent if no route matched. */
  route?: string;
  operation?: ModelOperation;
  /** The model's name in the request. */
  modelAsked?: string | undefined;
  asked?: Asked;
  /** Id of the answer, as clients see it. */
  answerId?: string | undefined;
  /** The server's name of the model that answers. */
  model?: string;
  /** When it began to wait for its model, by performance.now(); absent if that was loaded. */
  loadFromMs?: number;
  /** Milliseconds that it waited for its model to load. */
  loadMs?: number;
  /** When the engine was asked for each answer, by performance.now(). */
  begunMs?: number[];
  /** Answers are generated for it. */
  generates?: true;
  meter?: Meter;
  /** Milliseconds until the first piece of an answer. */
  firstMs?: number;
  /** Each answer, which knows how many tokens it and its prompt took, read or not. */
  answers?: Pick<Answer, 'used' | 'unreadBytes'>[];
  /** Of these, those whose prompt another one has evaluated for them. */
  sharing?: Pick<Answer, 'used'>[];
  promptTokens?: number;
  completionTokens?: number | undefined;
  cachedTokens?: number;
  /** All of its answers, if all succeeded. */
  finishes?: readonly Finish[];
  code?: ErrorCode;
  /** Trace of its span, if one is recorded. */
  traceId?: string;
  /** The error code and the name of the field at fault. */
  error?: string;
}

export function factsOf(res: Response): Facts {
  return (notesOf(res)['facts'] ??= { startMs: performance.now() }) as Facts;
}

/**
 * All its tokens, of prompts and answers, even if it was cut off. As in the reply's `usage`, a
 * prompt of several answers counts once.
 */
export function tokensOf(res: Response): number {
  const facts = factsOf(res);
  const { promptTokens = 0, completionTokens = 0 } = usedBy(facts);
  const sharedTokens = (facts.sharing ?? []).reduce((sum, { used }) => sum + (used?.promptTokens ?? 0), 0);
  return promptTokens - sharedTokens + completionTokens;
}

/** Its tokens as far as they are known, even if it was cut off. */
export function usedBy({ promptTokens, completionTokens, answers = [] }: Facts): { promptTokens?: number; completionTokens?: number } {
  if (promptTokens !== undefined) return { promptTokens, ...(completionTokens === undefined ? {} : { completionTokens }) };
  const used = answers.flatMap((answer) => answer.used ?? []);
  if (used.length === 0) return {};
  const sum = (of: (one: (typeof used)[number]) => number): number => used.reduce((all, one) => all + of(one), 0);
  return { promptTokens: sum((one) => one.promptTokens), completionTokens: sum((one) => one.completionTokens) };
}

/** Notes the settings of the first answer; the others differ only in their seeds. */
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

/** Notes code and field only, since the message of an error may quote the request. */
export function noteError(res: Response, { code, param }: RecuaError): void {
  const field = param !== undefined && /^[\w.[\]]{1,80}$/.test(param) ? ` at ${param}` : '';
  Object.assign(factsOf(res), { code, error: ` ${code}${field}` });
}
