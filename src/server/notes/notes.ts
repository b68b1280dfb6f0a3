// What the server notes about a request while it is answered. Not in `res.locals`: an app that
// mounts this one keeps its own values there, perhaps under the same names.
import type { Response } from 'express';

const notes = new WeakMap<Response, Record<string, unknown>>();

export function notesOf(res: Response): Record<string, unknown> {
  let own = notes.get(res);
  if (!own) notes.set(res, own = {});
  return own;
}
