// Anthropic's error body, for replies and inside streams. Pure.
import type { RecuaError } from '../../errors.js';
import { publicMessage } from '../http/error-reply.js';

const types: Readonly<Record<number, string>> = {
  401: 'authentication_error', 403: 'permission_error', 404: 'not_found_error', 413: 'request_too_large',
  429: 'rate_limit_error', 503: 'overloaded_error',
};

/** Anthropic's format, plus `code`, `param` and numbers. */
export function errorBody(error: RecuaError, requestId: string): object {
  const { code, status, param, details } = error;
  const type = types[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
  return { type: 'error', error: { ...details, ...threadDetails(error), type, message: message(error), code, param: param ?? null }, request_id: requestId };
}

/** Claude Code shortens a conversation when it sees these words. */
function message(error: RecuaError): string {
  const { n_prompt_tokens: tokens, n_ctx: context } = error.details ?? {};
  if (error.code !== 'context_length_exceeded' || tokens === undefined) return publicMessage(error);
  return `prompt is too long: ${tokens} tokens > ${context} maximum. ${error.message}`;
}

/** Anthropic's tool runners then send the whole conversation with each turn, without a thread. */
function threadDetails({ code, param }: RecuaError): object {
  return code === 'unsupported_parameter' && param === 'thread' ? { details: { error_code: 'thread_unsupported_request' } } : {};
}
