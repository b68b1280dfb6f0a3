// Sends a reply of one JSON object, which may be long. Used by the exchanges.
import { setImmediate } from 'node:timers/promises';
import type { Response } from 'express';
import { jsonParts } from '../http/long-json.js';
import { drained } from '../http/stream.js';

/** A reply up to this size is sent as a whole, with its length. */
const smallLetters = 64 * 1024;

/** Makes a long reply while the client reads it. */
export async function sendJson(res: Response, value: object): Promise<void> {
  let text = '';
  let isFirst = true;
  for (const part of jsonParts(value)) {
    if (!isFirst) await setImmediate();
    isFirst = false;
    if (res.destroyed) return;
    text += part;
    if (text.length < smallLetters) continue;
    if (!res.headersSent) res.type('json');
    if (!res.write(text)) await drained(res);
    text = '';
  }
  if (res.headersSent) res.end(text);
  else res.type('json').send(text);
}
