// Fields of a request that its response echoes, completed as OpenAI's schema requires. Called by
// response-request. Pure.
import { readMetadata } from '../../request/metadata.js';
import type { Sampling } from '../../engine/protocol.js';
import { isObject, type Fields } from '../../request/fields.js';

const maxTools = 1_024;

export function echoOf(body: Fields, { temperature, topP, presencePenalty, frequencyPenalty }: Sampling): Record<string, unknown> {
  return {
    instructions: body.string('instructions') ?? null,
    max_tool_calls: body.integer('max_tool_calls', { min: 1 }) ?? null,
    metadata: readMetadata(body) ?? {},
    parallel_tool_calls: body.boolean('parallel_tool_calls') ?? true,
    frequency_penalty: frequencyPenalty,
    presence_penalty: presencePenalty,
    prompt_cache_key: body.string('prompt_cache_key') ?? null,
    safety_identifier: body.string('safety_identifier') ?? null,
    service_tier: 'default',
    temperature,
    text: textOf(body),
    tool_choice: body.get('tool_choice') ?? 'auto',
    tools: (body.array('tools', maxTools) ?? []).map(wholeTool),
    top_p: topP,
    truncation: 'disabled',
    user: body.string('user') ?? null,
  };
}

function wholeTool(tool: unknown): unknown {
  return isObject(tool) && tool['type'] === 'function' ? { description: null, parameters: null, strict: null, ...tool } : tool;
}

function textOf(body: Fields): object {
  const { format, ...rest } = body.object('text') ?? {};
  const whole = isObject(format) && format['type'] === 'json_schema' ? { description: null, strict: false, ...format } : format;
  return { ...rest, format: whole ?? { type: 'text' } };
}
