// Requests with default values, and an engine over the fake addon, for the tests of this folder.
import { EngineLoop } from '#recua/engine/loop/engine-loop.js';
import { load } from '#recua/engine/process/load.js';
import type { BegunAnswer, ChatRequest, CompletionRequest, EngineEvent, EngineOptions, EngineStatus, Sampling } from '#recua/engine/protocol.js';
import { builtinPath } from '#recua/models/store.js';
import { engineDefaults } from '#recua/settings/config.js';
import { fakeAddon, type FakeOptions } from './fake-addon.js';

export const sampling: Sampling = {
  temperature: 0, topK: 40, topP: 0.95, minP: 0.05, typicalP: 1, topNSigma: -1, repeatPenalty: 1, penaltyLastN: 64, frequencyPenalty: 0,
  presencePenalty: 0, dryMultiplier: 0, dryBase: 1.75, dryAllowedLength: 2, dryPenaltyLastN: -1, xtcProbability: 0, xtcThreshold: 0.1,
  mirostat: 0, mirostatTau: 5, mirostatEta: 0.1, seed: undefined, logitBias: [], ignoreEos: false,
  dynatempRange: 0, dynatempExponent: 1, adaptiveTarget: -1, adaptiveDecay: 0.9, minKeep: 0, minTokens: 0,
};

export function completion(prompt: string | Int32Array, more: Partial<CompletionRequest> = {}): CompletionRequest {
  return { prompt, constraint: { kind: 'none' }, sampling, maxTokens: 64, stop: [], ...more };
}

export function chat(content: string, more: Partial<ChatRequest> = {}): ChatRequest {
  return {
    messages: JSON.stringify([{ role: 'user', content }]), tools: '', toolSources: [], toolChoice: 'auto', parallelToolCalls: undefined, constraint: { kind: 'none' },
    sampling, maxTokens: 64, stop: [], enableThinking: true, templateKwargs: {}, template: '', ...more,
  };
}

/** Makes the fake sampler say exactly this. */
export const say = (text: string) => ({ kind: 'grammar' as const, grammar: `say:${text}` });

export const options: EngineOptions = {
  ...engineDefaults, modelPath: builtinPath, contextSize: 2000, threads: 1, threadsBatch: 1,
  batchSize: 64, microBatchSize: 64, maxStallMs: 150, cacheRamMib: 1, queueSize: 1000,
};

/** The outcome of a request. */
export interface Outcome {
  content: string;
  deltas: number;
  accepted: boolean;
  calls: { name: string; arguments: string }[];
  end: Extract<EngineEvent, { kind: 'done' | 'error' | 'embedded' | 'result' }>;
}

/** An engine over the fake in this process. */
export async function openEngine(fake: FakeOptions = {}, more: Partial<EngineOptions> = {}) {
  const addon = fakeAddon(fake);
  const loaded = await load(addon, { ...options, ...more }, () => {}).promise;
  // Tests count what their requests do, not what the load tried.
  addon.stats.steps = 0;
  addon.tokenized.length = 0;
  const outcomes = new Map<number, Outcome>();
  const waiters = new Map<number, (outcome: Outcome) => void>();
  const messages: EngineEvent[][] = [];
  let status: EngineStatus = { running: 0, waiting: 0, tokens: 0 };
  let nextId = 1;
  const engine = new EngineLoop(addon, loaded, {
    log: () => {},
    emit: (events, now) => {
      status = now;
      messages.push(events);
      for (const event of events) {
        const outcome = outcomes.get(event.id)!;
        if (event.kind === 'accepted') outcome.accepted = true;
        else if (event.kind === 'delta') {
          outcome.deltas++;
          outcome.content += event.delta.content ?? '';
          for (const call of event.delta.toolCalls ?? []) {
            outcome.calls[call.index] ??= { name: '', arguments: '' };
            outcome.calls[call.index].name += call.name ?? '';
            outcome.calls[call.index].arguments += call.arguments ?? '';
          }
        } else if (event.kind !== 'started') {
          if (outcome.end) throw new Error(`request ${event.id} ended twice`);
          outcome.end = event;
          waiters.get(event.id)?.(outcome);
        }
      }
    },
  });
  const track = () => {
    const id = nextId++;
    outcomes.set(id, { content: '', deltas: 0, accepted: false, calls: [], end: undefined as never });
    return { id, done: new Promise<Outcome>((resolve) => waiters.set(id, resolve)) };
  };
  return {
    addon,
    engine,
    loaded,
    messages,
    outcomes,
    status: () => status,
    complete: (request: CompletionRequest, begun?: BegunAnswer) => {
      const { id, done } = track();
      engine.complete(id, request, begun);
      return { id, done };
    },
    chat: (request: ChatRequest) => {
      const { id, done } = track();
      engine.chat(id, request);
      return { id, done };
    },
    keep: (work: Parameters<EngineLoop['keep']>[1]) => {
      const { id, done } = track();
      engine.keep(id, work);
      return { id, done };
    },
    ask: (takesLong: boolean, question: Parameters<EngineLoop['ask']>[2]) => {
      const { id, done } = track();
      engine.ask(id, { takesLong }, question);
      return { id, done };
    },
    embed: (inputs: (string | Int32Array)[], client?: string, priority = 0) => {
      const { id, done } = track();
      engine.embed(id, { inputs, ...(client === undefined ? {} : { asker: { client, priority } }) });
      return { id, done };
    },
    rerank: (query: string, documents: string[], client: string) => {
      const { id, done } = track();
      engine.embed(id, { query, documents, asker: { client, priority: 0 } });
      return { id, done };
    },
  };
}

export const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Repeatable random numbers in [0, 1). */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
