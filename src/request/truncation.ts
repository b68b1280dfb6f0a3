// `truncation`: what to do with a conversation that does not fit the context. Pure.
import type { ChatRequest } from '../engine/protocol.js';
import type { Fields } from './fields.js';

/** Without the field, or with "disabled", such a request is refused. */
export function readTruncation(body: Fields): Pick<ChatRequest, 'truncation'> {
  return body.word('truncation', ['auto', 'disabled']) === 'auto' ? { truncation: 'auto' } : {};
}
