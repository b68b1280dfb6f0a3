// `tools` and `tool_choice` of a request. Called by message-request. Pure.
import type { ChatRequest } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { describe, Fields, isObject, wrongType } from '../../request/fields.js';
import { maxToolName, maxTools, offerNamed, readTool, requireSome, writeTools, type Choice, type ReadTool } from '../../request/tool-text.js';

export function readTools(body: Fields): Pick<ChatRequest, 'tools' | 'toolSources' | 'toolChoice' | 'parallelToolCalls'> {
  const tools = (body.array('tools', maxTools) ?? []).map((tool, index) => readCustom(Fields.of(tool, `tools[${index}]`)));
  const choice = body.fields('tool_choice');
  const { offered, toolChoice } = choose(choice, tools);
  return { ...writeTools(offered), toolChoice, parallelToolCalls: choice?.boolean('disable_parallel_tool_use') === true ? false : undefined };
}

function readCustom(fields: Fields): ReadTool {
  const type = fields.string('type');
  if (type !== undefined && type !== 'custom') {
    throw new RecuaError('unsupported_parameter',
      `Expected a tool with an input_schema for ${fields.param('type')}, got ${describe(type)}; Anthropic's own tools are not supported.`,
      { param: fields.param('type') });
  }
  const schema = fields.get('input_schema');
  if (!isObject(schema)) throw wrongType(fields.param('input_schema'), 'a JSON schema', schema);
  return readTool(fields, 'input_schema');
}

function choose(choice: Fields | undefined, tools: ReadTool[]): Choice {
  if (choice === undefined) return { offered: tools, toolChoice: 'auto' };
  const type = choice.word('type', ['auto', 'any', 'tool', 'none']);
  switch (type) {
    case 'auto':
    case 'none':
      return { offered: tools, toolChoice: type };
    case 'any':
      return { offered: tools, toolChoice: requireSome(tools, type, 'tool_choice') };
    case 'tool':
      return { offered: offerNamed(tools, [choice.name('name', maxToolName)], 'tool_choice.name'), toolChoice: 'required' };
    default:
      throw wrongType('tool_choice.type', '"auto", "any", "tool" or "none"', undefined);
  }
}
