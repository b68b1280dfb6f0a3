// Whether the model thinks, and the variables of its chat template. Each dialect has fields of its
// own for this, beside `chat_template_kwargs`. Pure.
import type { ChatRequest } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { wrongType, type Fields } from './fields.js';

/** Templates use a handful, and llama.cpp compares each name with all others. */
const mostVariables = 63;

/** What a request says in the fields of its dialect. */
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
