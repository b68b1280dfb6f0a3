// Ids for tool calls of models that write none.
import { randomBytes } from 'node:crypto';

export function newToolCallId(): string {
  return `call_${randomBytes(12).toString('hex')}`;
}
