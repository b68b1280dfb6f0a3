// Ollama's error body, for replies and inside streams. Pure.
import type { RecuaError } from '../../errors.js';
import { publicMessage } from '../http/error-reply.js';

/** Ollama's `error`, plus `code` and `param`. */
export function errorBody(error: RecuaError): object {
  const { code, param, details } = error;
  return { error: publicMessage(error), code, ...(param === undefined ? {} : { param }), ...details };
}
