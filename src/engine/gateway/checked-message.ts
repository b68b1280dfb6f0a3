// Checks what an engine process sends, before the gateway uses it: a model's file may have taken
// over the process, and a wrong value would end the gateway later, far from here.
import { errorTable } from '../../errors.js';
import { isPacked, type PackedTokens } from '../packed-tokens.js';
import { logLevels, type EngineEvent, type FromEngine, type RequestMessage } from '../protocol.js';

type Check = (value: unknown) => boolean;

const text: Check = (value) => typeof value === 'string';
const flag: Check = (value) => typeof value === 'boolean';
const number: Check = (value) => Number.isFinite(value);
const count: Check = (value) => Number.isFinite(value) && (value as number) >= 0;
const integers: Check = (value) => value instanceof Int32Array;
const floats: Check = (value) => value instanceof Float32Array;
const bytes: Check = (value) => value instanceof Uint8Array;

const maybe = (check: Check): Check => (value) => value === undefined || check(value);
const among = (values: readonly unknown[]): Check => (value) => values.includes(value);
/** every() would skip holes, of which a few bytes can hold four billion. */
const listOf = (check: Check): Check => (value) => Array.isArray(value) && value.findIndex((one) => !check(one)) < 0;

function shape(fields: Readonly<Record<string, Check>>): Check {
  const entries = Object.entries(fields);
  return (value) => typeof value === 'object' && value !== null && entries.every(([name, check]) => check((value as Record<string, unknown>)[name]));
}

/** Of several shapes, the one that the field names. */
const byField = (name: string, shapes: Readonly<Record<string, Check>>): Check => (value) => {
  const kind = (value as Record<string, unknown> | null | undefined)?.[name];
  return typeof kind === 'string' && Object.hasOwn(shapes, kind) && shapes[kind]!(value);
};

const error = shape({
  code: (value) => text(value) && Object.hasOwn(errorTable, value as string),
  message: text,
  param: maybe(text),
  details: maybe(
    (value) => shape({})(value) && Object.values(value as object).every((one) => one === undefined || text(one) || number(one)),
  ),
});
const usage = shape({
  promptTokens: count,
  cachedTokens: count,
  completionTokens: count,
  reasoningTokens: maybe(count),
  draftedTokens: maybe(count),
  acceptedTokens: maybe(count),
});
const timings = shape({ queueMs: number, promptMs: number, generateMs: number });
const packed: Check = (value) => shape({ count, bytes })(value) && isPacked(value as PackedTokens);
const delta = shape({
  content: maybe(text), reasoning: maybe(text), tokens: maybe(packed), echo: maybe(text), promptTokens: maybe(listOf(packed)),
  toolCalls: maybe(listOf(shape({ index: count, id: maybe(text), name: maybe(text), arguments: maybe(text) }))),
  progress: maybe(shape({ total: count, cached: count, processed: count, elapsedMs: number })),
  soFar: maybe(shape({ usage, timings })),
});

const event = byField('kind', {
  accepted: shape({ id: number, promptTokens: count, position: count, prompt: maybe(integers) }),
  started: shape({ id: number }),
  delta: shape({ id: number, delta }),
  done: shape({ id: number, finishReason: among(['stop', 'length', 'tool_calls']), usage, timings, seed: number, stop: maybe(text), warnings: maybe(listOf(text)) }),
  embedded: shape({ id: number, vectors: floats, dimensions: count, tokenCounts: integers }),
  result: shape({ id: number }),
  error: shape({ id: number, error }),
} satisfies Record<EngineEvent['kind'], Check>);

const device = shape({
  name: text,
  description: text,
  kind: text,
  backend: text,
  id: text,
  memoryFreeBytes: count,
  memoryTotalBytes: count,
});
const model = shape({
  description: text,
  fingerprint: text,
  architecture: text,
  fileType: text,
  parameters: count,
  sizeBytes: count,
  vocabSize: count,
  vocabType: number,
  embeddingSize: count,
  layers: count,
  contextTrain: count,
  contextSize: count,
  leastContext: count,
  parallel: count,
  pooling: text,
  hasChatTemplate: flag,
  chatTemplate: text,
  canGenerate: flag,
  canInfill: flag,
  bosText: text,
  eosText: text,
  canEmbed: flag,
  canRerank: flag,
  devices: listOf(device),
  offload: shape({ devices: listOf(text), layers: count, totalLayers: count }),
  deviceBytes: number,
  backends: listOf(text),
  llamaCpp: text,
  notes: listOf(text),
});
const work = shape({ busy: flag, done: number });

const message = byField('type', {
  progress: shape({ fraction: count }),
  ready: shape({ model }),
  failed: shape({ error }),
  log: shape({ level: among(logLevels), text }),
  pulse: shape({ pulse: shape({ compute: work, pool: work }) }),
  events: shape({
    events: listOf(event), generated: maybe(integers),
    status: shape({ running: count, waiting: count, tokens: count, kv: maybe(shape({ used: count, kept: count })) }),
  }),
} satisfies Record<FromEngine['type'], Check>);

const saved = shape({ tokens: count, sizeBytes: count, reason: maybe(text) });

/** The results of requests that have one. */
const results: Partial<Record<RequestMessage['type'], Check>> = {
  render: shape({ prompt: text, tokenCount: count }),
  tokenize: integers,
  detokenize: text,
  pieces: listOf(bytes),
  save: saved,
  restore: saved,
  forget: () => true,
};

/** @throws Error if no engine sends such a message */
export function checkedMessage(value: unknown): FromEngine {
  if (message(value)) return value as FromEngine;
  throw new Error(`It is no message of an engine: ${String((value as { type?: unknown } | null)?.type).slice(0, 20)}.`);
}

/** @throws Error if a request of this type has no such event */
export function checkEvent(type: RequestMessage['type'], event: EngineEvent): void {
  const { kind } = event;
  if (kind === 'accepted' || kind === 'started' || kind === 'error') return;
  const isAnswer = kind === 'delta' || kind === 'done';
  const isRight = type === 'chat' || type === 'complete' ? isAnswer
    : type === 'embed' || type === 'rerank' ? kind === 'embedded'
      : kind === 'result' && results[type]!(event.value);
  if (!isRight) throw new Error(`A request of the type ${type} has no such event: ${kind}.`);
}
