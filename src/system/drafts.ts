// Names of drafts: files that are written beside their place and then renamed. A UUID tells a draft
// that a killed program left from any file of the user.
import { randomUUID } from 'node:crypto';

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/;

/** A new draft's name: the start, and a UUID. */
export function draftName(start: string): string {
  return `${start}${randomUUID()}`;
}

/** Whether `draftName` made this name, perhaps with an ending that a draft of it has. */
export function isDraft(name: string, start: string): boolean {
  return name.startsWith(start) && uuid.test(name.slice(start.length));
}
