// A model's current activity, for lists of models. Used by both kinds of pool.
import type { Engine } from '../api.js';
import type { Activity } from '../pool-api.js';

/** `asked`: requests that wait for the model to be loaded. */
export function activityOf(engine: Engine | undefined, asked = 0): Activity {
  const status = engine?.state.state === 'ready' ? engine.state.status : undefined;
  return { running: status?.running ?? 0, waiting: (status?.waiting ?? 0) + asked, tokensPerSecond: engine?.tokensPerSecond ?? 0, kv: status?.kv };
}
