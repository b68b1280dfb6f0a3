// `service_tier`: whose turn comes before and behind that of others. Pure.
import type { Asker } from '../engine/protocol.js';
import type { Fields } from './fields.js';

/** Below all others. */
export const idlePriority = -1;
const tiers: ReadonlyMap<unknown, number> = new Map([['flex', idlePriority], ['priority', 1]]);

/** What else OpenAI and Anthropic have there asks for what everyone gets. */
export function readPriority(body: Fields): { asker?: Asker } {
  const priority = tiers.get(body.get('service_tier'));
  return priority === undefined ? {} : { asker: { client: '', priority } };
}
