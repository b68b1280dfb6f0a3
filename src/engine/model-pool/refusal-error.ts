// The error for a request that does not get its model: what it needs, what there is, what to do.
// Used by engine/model-pool/pool.
import { RecuaError } from '../../errors.js';
import { gaveWay } from '../give-way.js';
import { memoryText } from '../offload.js';
import { groupPlace, type Bytes } from '../leases/budget.js';
import type { Refusal } from '../leases/events.js';

export function refusalError(id: string, why: Refusal): RecuaError {
  if (why.kind === 'failed') return RecuaError.fromPlain(why.error);
  if (why.kind === 'gave_way') return gaveWay();
  if (why.kind === 'queue_full') {
    return new RecuaError('queue_full', `The queue is full: ${why.most} requests wait for ${id} to be loaded; try again in a moment.`);
  }
  const { need, budget, pinned, left = {}, maxModels, pinnedModels } = why;
  const over = (there: Bytes, place: string): boolean => (need[place] ?? 0) > there[place]! - (there === budget ? pinned[place] ?? 0 : 0);
  const needs = (place: string): string => `it needs ${memoryText(need[place]!)} of ${place}`;
  const rows = Object.keys(budget).filter((place) => over(budget, place)).map((place) => {
    if (place.startsWith(groupPlace(''))) return `${place} has one model at a time, and a pinned model is in it`;
    const kept = (pinned[place] ?? 0) > 0 ? `, of which ${memoryText(pinned[place]!)} are taken by pinned models` : '';
    return `${needs(place)}, and models may have ${memoryText(budget[place]!)}${kept}`;
  });
  for (const place of Object.keys(left).filter((one) => over(left, one))) {
    rows.push(`${needs(place)}, and this machine has ${memoryText(Math.max(0, left[place]!))} left now; other programs have the rest`);
  }
  if (maxModels > 0 && pinnedModels >= maxModels) rows.push(`${maxModels} ${maxModels === 1 ? 'model' : 'models'} may be loaded at once, and as many are pinned`);
  return new RecuaError('model_too_large', `${id} cannot be loaded here: ${rows.join('; ')}. Use a smaller model, quantization or context, or raise the limit (recua api --help: --max-memory, --max-models).`, {
    param: 'model',
    details: { needed_bytes: need['memory'] ?? 0, available_bytes: Math.max(0, left['memory'] ?? (budget['memory'] ?? 0) - (pinned['memory'] ?? 0)) },
  });
}
