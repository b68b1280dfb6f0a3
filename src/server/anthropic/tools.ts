// `tools` and `tool_choice` of a request. Called by message-request. Pure.
import type { ChatRequest, Tool } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { describe, Fields, isObject, wrongType, wrongValue } from '../../request/fields.js';
import { writeTools, type ReadTool } from '../../request/tool-text.js';

const maxTools = 1_024;
const maxNameLength = 256;

export function readTools(body: Fields): Pick<ChatRequest, 'tools' | 'toolSources' | 'toolChoice' | 'parallelToolCalls'> {
  const tools = (body.array('tools', maxTools) ?? []).map((tool, index) => readTool(Fields.of(tool, `tools[${index}]`)));
  const choice = body.fields('tool_choice');
  const { offered, toolChoice } = choose(choice, tools);
  return { ...writeTools(offered), toolChoice, parallelToolCalls: choice?.boolean('disable_parallel_tool_use') === true ? false : undefined };
}

function readTool(fields: Fields): ReadTool {
  const type = fields.string('type');
  if (type !== undefined && type !== 'custom') {
    throw new RecuaError('unsupported_parameter',
      `Expected a tool with an input_schema for ${fields.param('type')}, got ${describe(type)}; tools that run on Anthropic's servers are not supported.`,
      { param: fields.param('type') });
  }
  const tool: Tool = { type: 'function', function: { name: fields.name('name', maxNameLength) } };
  const description = fields.string('description');
  const schema = fields.get('input_schema');
  if (!isObject(schema)) throw wrongType(fields.param('input_schema'), 'a JSON schema', schema);
  const strict = fields.boolean('strict');
  if (description !== undefined) tool.function.description = description;
  tool.function.parameters = schema;
  if (strict !== undefined) tool.function.strict = strict;
  return { tool, param: fields.param('input_schema') };
}

function choose(choice: Fields | undefined, tools: ReadTool[]): { offered: ReadTool[]; toolChoice: ChatRequest['toolChoice'] } {
  if (choice === undefined) return { offered: tools, toolChoice: 'auto' };
  const type = choice.word('type', ['auto', 'any', 'tool', 'none']);
  switch (type) {
    case 'auto':
    case 'none':
      return { offered: tools, toolChoice: type };
    case 'any':
      if (tools.length === 0) throw wrongValue('tool_choice', 'tools to choose from', type);
      return { offered: tools, toolChoice: 'required' };
    case 'tool': {
      // "This one" is "some one" where it is the only one offered.
      const name = choice.name('name', maxNameLength);
      const named = tools.filter(({ tool }) => tool.function.name === name);
      if (named.length === 0) throw wrongValue('tool_choice.name', 'the name of one of the tools', name);
      return { offered: named, toolChoice: 'required' };
    }
    default:
      throw wrongType('tool_choice.type', '"auto", "any", "tool" or "none"', undefined);
  }
}
