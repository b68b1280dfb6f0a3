// What the dialogue says about a message that was not answered.
import { RecuaError } from '../../errors.js';

/** Whether the message itself was the problem, so that sending it again cannot work. */
export function isRefusal(thrown: unknown): boolean {
  const { code, type } = RecuaError.from(thrown);
  return type === 'invalid_request_error' && code !== 'cancelled';
}

export function tooLongText(error: RecuaError): string {
  const { n_prompt_tokens: needed, n_ctx: room, counted } = error.details ?? {};
  return needed === undefined || room === undefined ? `recua: ${error.message}`
    : `recua: This message does not fit: with it the conversation has ${counted === undefined ? '' : 'at least '}${needed} tokens, and the context holds ${room}. `
      + 'Nothing was dropped. Shorten it, or use /undo to remove the last exchange or /clear to start over.';
}
