// Limits on thinking, by the field names of llama-server and vLLM. Pure. Called by the readers of
// chats.
import type { ThoughtsRequest } from '../engine/protocol.js';
import { int32Max, wrongValue, type Fields } from './fields.js';

const names = ['reasoning_budget_tokens', 'thinking_budget_tokens', 'thinking_token_budget'] as const;
const maxMessage = 4_096;

/** Undefined if only the model ends its thinking. -1 means no budget. */
export function readThoughts(body: Fields): ThoughtsRequest | undefined {
  const param = names.find((name) => body.get(name) !== undefined);
  const budget = param === undefined ? undefined : body.integer(param, { min: -1, max: int32Max });
  const message = body.string('reasoning_budget_message');
  if (message !== undefined && message.length > maxMessage) {
    throw wrongValue('reasoning_budget_message', `at most ${maxMessage} characters`, message);
  }
  return thoughtsOf({
    ...(param === undefined || budget === undefined || budget < 0 ? {} : { budget, param }),
    ...(message ? { message } : {}),
    ...(body.boolean('reasoning_control') ? { control: true } : {}),
  });
}

function thoughtsOf(thoughts: ThoughtsRequest): ThoughtsRequest | undefined {
  return thoughts.budget === undefined && !thoughts.control ? undefined : thoughts;
}
