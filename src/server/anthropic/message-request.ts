// Parses and checks the body of POST /v1/messages → the engine's ChatRequest. Pure. Called by the
// dialect's routes. Unsupported fields that would change the answer are refused by name.
import type { ChatRequest, Constraint } from '../../engine/protocol.js';
import { readConstraint, refuseBesideTools } from '../../request/constraint-fields.js';
import { checkName, int32Max, isObject, wrongType, type Fields } from '../../request/fields.js';
import { readPriority } from '../../request/priority.js';
import { readSampling } from '../../request/sampling-fields.js';
import { readThinking, readThoughts } from '../../request/thinking-fields.js';
import { readTruncation } from '../../request/chat-fields.js';
import { unsupported } from '../../request/unsupported.js';
import type { ChatContext } from '../exchange/dialect.js';
import { readMessages } from './messages.js';
import { readTools } from './tools.js';

const maxStops = 16;
const maxStopLength = 1_024;

export interface MessageBody {
  request: ChatRequest;
  stream: boolean;
  /** The request's own stop strings, as opposed to the template's. */
  stops: readonly string[];
}

export function readMessageRequest(body: Fields, { defaults, model }: ChatContext): MessageBody {
  refuseUnsupported(body);
  const sampling = readSampling(body, { ...defaults, vocabSize: model.vocabSize, contextSize: model.contextSize });
  const stops = readStops(body);
  const { messages, sources } = readMessages(body);
  const tools = readTools(body);
  const constraint = readConstraint(body, { 'output_config.format': readFormat(body) });
  refuseBesideTools(constraint, tools);
  body.allow('metadata', 'cache_control', 'anthropic_version', 'anthropic_beta', 'betas');
  return {
    request: {
      messages: JSON.stringify(messages),
      messageSources: sources,
      ...readTruncation(body),
      ...tools,
      constraint,
      sampling,
      maxTokens: body.integer('max_tokens', { min: 0, max: int32Max }) ?? defaults.maxTokens,
      stop: stops,
      ...readThoughtFields(body),
      template: '',
      ...readPriority(body),
    },
    stream: body.boolean('stream') ?? false,
    stops,
  };
}

function refuseUnsupported(body: Fields): void {
  for (const name of ['mcp_servers', 'container', 'thread'] as const) {
    const value = body.get(name);
    if (value === undefined || (Array.isArray(value) && value.length === 0)) continue;
    throw unsupported(name, value);
  }
}

function readStops(body: Fields): string[] {
  const stops = body.array('stop_sequences', maxStops) ?? [];
  return stops.map((text, index) => checkName(text, `stop_sequences[${index}]`, maxStopLength));
}

const efforts = ['low', 'medium', 'high', 'xhigh', 'max'] as const;

/** Without the field, the model thinks if its chat template supports that. */
function readThoughtFields(body: Fields): Pick<ChatRequest, 'enableThinking' | 'templateKwargs' | 'thoughts'> {
  const given = body.fields('thinking');
  const type = given?.word('type', ['enabled', 'disabled', 'adaptive', 'between_tools']);
  given?.allow('display');
  if (given && type === undefined) throw wrongType(given.param('type'), '"enabled", "disabled", "adaptive" or "between_tools"', undefined);
  const budget = given?.integer('budget_tokens', { min: 0, max: int32Max });
  const effort = body.fields('output_config')?.word('effort', efforts);
  const others = readThoughts(body);
  return {
    ...readThinking(body, { enabled: type === 'enabled' || (type === 'disabled' ? false : undefined), effort }),
    ...(budget === undefined || type !== 'enabled' ? others && { thoughts: others } : { thoughts: { ...others, budget, param: 'thinking.budget_tokens' } }),
  };
}

/** `output_config.format`, or its older name `output_format`. */
function readFormat(body: Fields): Constraint {
  const config = body.fields('output_config');
  const format = config?.fields('format') ?? body.fields('output_format');
  if (format === undefined) return { kind: 'none' };
  const type = format.word('type', ['json_schema', 'text']);
  if (type === undefined) throw wrongType(format.param('type'), '"json_schema"', undefined);
  if (type === 'text') return { kind: 'none' };
  const schema = format.get('schema');
  if (!isObject(schema) && schema !== true) throw wrongType(format.param('schema'), 'a JSON schema', schema);
  return { kind: 'schema', schema: JSON.stringify(schema), strict: true, param: format.param('schema') };
}
