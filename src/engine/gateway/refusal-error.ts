// Why a request does not get its model, as an error: what it needs, what there is, what to do. Used
// by engine/gateway/pool.
import { RecuaError } from '../../errors.js';
import type { Refusal } from '../leases/events.js';

export function refusalError(id: string, why: Refusal): RecuaError {
  if (why.kind === 'failed') return RecuaError.fromPlain(why.error);
  if (why.kind === 'queue_full') {
    return new RecuaError('queue_full', `${why.most} requests wait for ${id} to be loaded, and no more may; try again in a moment.`);
  }
  const { need, budget, pinned, maxModels, pinnedModels } = why;
  const rows = Object.keys(budget).filter((place) => (need[place] ?? 0) > budget[place]! - (pinned[place] ?? 0)).map((place) => {
    const kept = (pinned[place] ?? 0) > 0 ? `, of which ${size(pinned[place]!)} are taken by pinned models` : '';
    return `${place}: ${size(need[place]!)} needed, ${size(budget[place]!)} there for models${kept}`;
  });
  if (maxModels > 0 && pinnedModels >= maxModels) rows.push(`models at once: ${maxModels}, all of them pinned`);
  return new RecuaError('model_too_large', `${id} cannot be loaded here. ${rows.join('; ')}. Take a smaller model, quantisation or context, or allow more.`, {
    param: 'model',
    details: { needed_bytes: need['memory'] ?? 0, available_bytes: Math.max(0, (budget['memory'] ?? 0) - (pinned['memory'] ?? 0)) },
  });
}

function size(bytes: number): string {
  return bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : `${Math.ceil(bytes / 2 ** 20)} MiB`;
}
