// `truncation`: what to do with a conversation that does not fit the context. Pure.
import type { ChatRequest } from '../engine/protocol.js';
import type { Fields } from './fields.js';

/** With "disabled", the default, such a request is refused. */
export function readTruncation(body: Fields): Required<Pick<ChatRequest, 'truncation'>> {
  return { truncation: body.word('truncation', ['auto', 'disabled']) ?? 'disabled' };
}
