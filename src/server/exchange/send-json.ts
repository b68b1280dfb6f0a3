// Sends a reply of one JSON object, which may be long. Used by the exchanges.
import { setImmediate } from 'node:timers/promises';
import type { Response } from 'express';
import { jsonParts } from '../http/long-json.js';

/**
 * Makes a long reply with turns for other work, then sends it as a whole: so it has a length, it
 * counts as memory of replies, or is a 503, and nothing waits for its client.
 */
export async function sendJson(res: Response, value: object): Promise<void> {
  const [first, ...rest] = await partsOf(value);
  res.type('json');
  if (rest.length === 0) return void res.send(first);
  const bytes = Buffer.concat([first!, ...rest]);
  // Express would hash all of it for an ETag.
  res.set('Content-Length', String(bytes.length)).end(bytes);
}

async function partsOf(value: object): Promise<Buffer[]> {
  const parts: Buffer[] = [];
  for (const part of jsonParts(value)) {
    if (parts.length > 0) await setImmediate();
    parts.push(Buffer.from(part));
  }
  return parts;
}
