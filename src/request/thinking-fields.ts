// Whether the model thinks, the variables of its chat template, and limits on thinking, by the
// field names of llama-server and vLLM. Pure. Called by the readers of chats.
import type { ChatRequest, ThoughtsRequest } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { int32Max, wrongType, wrongValue, type Fields } from './fields.js';

/** Templates use a handful, and llama.cpp compares each name with all others. */
const mostVariables = 63;

/** What a request says in its dialect's own fields, beside `chat_template_kwargs`. */
interface Said {
  /** Undefined: nothing. */
  enabled?: boolean | undefined;
  /** `none`: the model does not think. */
  effort?: string | undefined;
}

type Thinking = Pick<ChatRequest, 'enableThinking' | 'templateKwargs'>;

/** The most specific field wins: the variables, then the switch, then the effort. */
export function readThinking(body: Fields, said: Said): Thinking {
  const variables = body.object('chat_template_kwargs') ?? {};
  const { enable_thinking: enabled, ...others } = variables;
  const names = Object.keys(others).length;
  if (names > mostVariables) {
    throw new RecuaError('invalid_value', `Expected at most ${mostVariables} names in chat_template_kwargs, got ${names}.`, { param: 'chat_template_kwargs' });
  }
  if (enabled !== undefined && enabled !== null && typeof enabled !== 'boolean') {
    throw wrongType('chat_template_kwargs.enable_thinking', 'true or false', enabled);
  }
  return thinkingOf({ ...said, enabled: enabled ?? said.enabled }, others);
}

/** `variables`: those of the request, which win over an effort. */
export function thinkingOf({ enabled, effort }: Said, variables: Record<string, unknown> = {}): Thinking {
  return {
    enableThinking: enabled ?? effort !== 'none',
    templateKwargs: {
      ...(effort === undefined || effort === 'none' ? {} : { reasoning_effort: effort }),
      ...variables,
      // Some templates only think if this variable is set.
      ...(enabled === true ? { enable_thinking: true } : {}),
    },
  };
}

const budgetFields = ['reasoning_budget_tokens', 'thinking_budget_tokens', 'thinking_token_budget'] as const;
const maxMessage = 4_096;

/** Undefined if only the model ends its thinking. -1 means no budget. */
export function readThoughts(body: Fields): ThoughtsRequest | undefined {
  const param = budgetFields.find((name) => body.get(name) !== undefined);
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
