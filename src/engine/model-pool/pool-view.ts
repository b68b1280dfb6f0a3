// What callers see of a pool's models: names, state and description. Called by
// engine/model-pool/pool.
import type { ModelEntry } from '../leases/model-entry.js';
import type { ModelState, PoolModel } from '../pool-api.js';
import type { SleepCache } from '../sleep/sleep-cache.js';
import { activityOf } from '../gateway/activity.js';
import type { CatalogueModel } from './catalogue.js';
import type { ServedModel } from './served-model.js';

export interface Followed {
  /** The catalogue has them. */
  here: ServedModel[];
  gone: ServedModel[];
  /** They are gone, too, and another model has their name. */
  replaced: ServedModel[];
}

/** Gives models their present names in the catalogue. */
export function follow(all: Iterable<ServedModel>, listed: readonly CatalogueModel[]): Followed {
  const now = new Map(listed.map((model) => [model.key, model]));
  const ids = new Set(listed.map(({ id }) => id));
  const followed: Followed = { here: [], gone: [], replaced: [] };
  for (const served of all) {
    const model = now.get(served.key);
    if (model) served.model = model;
    followed[model ? 'here' : ids.has(served.id) ? 'replaced' : 'gone'].push(served);
  }
  return followed;
}

/** `entry`: what decides about its loading; undefined if the pool does not load it. */
export function stateOf(served: ServedModel, entry: Readonly<ModelEntry> | undefined, sleep: SleepCache | undefined): ModelState {
  const { key, engine, known, fraction, model, problem } = served;
  if (!entry) return stateWithoutPlan(problem ? { problem } : model);
  if (entry.phase === 'loading') return { state: 'loading', fraction };
  if (entry.phase === 'ready') {
    if (engine?.state.state === 'restarting') return { state: 'loading', fraction };
    return entry.draining || entry.stopFrom !== undefined ? { state: 'unloading' } : { state: 'loaded', model: known! };
  }
  if (entry.waiting.length > 0) return { state: 'loading', fraction: 0 };
  if (entry.failed) return { state: 'failed', error: entry.failed.error };
  if (problem && entry.phase === 'unloaded') return { state: 'failed', error: problem };
  return { state: entry.phase === 'unloaded' && sleep?.keeps(key) ? 'sleeping' : entry.phase };
}

/** The state of a model whose file the pool has not read. */
export function stateWithoutPlan({ problem }: Pick<CatalogueModel, 'problem'>): ModelState {
  return problem ? { state: 'failed', error: problem } : { state: 'unloaded' };
}

export function viewOf(
  model: CatalogueModel, state: ModelState, served: ServedModel | undefined, entry: Readonly<ModelEntry> | undefined,
): PoolModel {
  const { id, aliases, createdSeconds, fileBytes = 0 } = model;
  const expiresMs = entry?.expiresMs;
  return {
    id,
    aliases,
    createdSeconds,
    fileBytes,
    state,
    known: served?.knownOf(model),
    fileChange: served?.engine && served.fileChange,
    hasFailed: entry?.failed !== undefined || served?.problem !== undefined,
    pinned: entry?.plan.pinned ?? false,
    leases: entry ? entry.leases.size + entry.waiting.length : 0,
    activity: activityOf(served?.engine, entry?.waiting.length),
    expiresMs: expiresMs === undefined ? undefined : Date.now() + expiresMs - performance.now(),
    sizeBytes: entry?.need['memory'] ?? 0,
    loads: served?.loads ?? 0,
    crashes: served?.crashes ?? 0,
    pid: served?.engine?.pid,
  };
}
