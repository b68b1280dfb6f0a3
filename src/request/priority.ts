// `service_tier`: the priority of a request in the queue. Pure.
import type { Asker } from '../engine/protocol.js';
import type { Fields } from './fields.js';

/** Lower than any other. */
export const idlePriority = -1;
const tiers: ReadonlyMap<unknown, number> = new Map([['flex', idlePriority], ['priority', 1]]);

/** The same before the body is read; 0 for the default. */
export function peekPriority(body: Fields): number {
  return tiers.get(body.peek('service_tier')) ?? 0;
}

/** All other values of OpenAI and Anthropic mean the default priority. */
export function readPriority(body: Fields): { asker?: Asker } {
  const priority = tiers.get(body.get('service_tier'));
  return priority === undefined ? {} : { asker: { client: '', priority } };
}
