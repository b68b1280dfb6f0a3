// Tools as OpenAI's clients, and Ollama's, describe them, and what the model may do with them.
// Pure.
import type { ChatRequest, Tool } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { describe, Fields, isObject, wrongType, wrongValue } from './fields.js';
import { writeTools, type ReadTool } from './tool-text.js';

/** OpenAI ends at 128; agents with several tool servers pass it. */
const maxTools = 1_024;
const maxNameLength = 256;

export function readTools(body: Fields): Pick<ChatRequest, 'tools' | 'toolSources' | 'toolChoice' | 'parallelToolCalls'> {
  const tools = readFunctions(body);
  const { offered, toolChoice } = choose(body, tools);
  return { ...writeTools(offered), toolChoice, parallelToolCalls: body.boolean('parallel_tool_calls') };
}

export function readFunctions(body: Fields): ReadTool[] {
  return (body.array('tools', maxTools) ?? []).map((tool, index) => readTool(Fields.of(tool, `tools[${index}]`)));
}

function readTool(fields: Fields): ReadTool {
  const type = fields.string('type');
  if (type === undefined) throw wrongType(fields.param('type'), '"function"', undefined);
  if (type !== 'function') {
    throw new RecuaError('unsupported_parameter',
      `Expected "function" for ${fields.param('type')}, got ${describe(type)}; tools that run on the server are not supported.`,
      { param: fields.param('type') });
  }
  const given = fields.fields('function');
  if (given === undefined) throw wrongType(fields.param('function'), 'an object', undefined);
  const tool: Tool = { type: 'function', function: { name: given.name('name', maxNameLength) } };
  const description = given.string('description');
  const parameters = given.object('parameters');
  const strict = given.boolean('strict');
  if (description !== undefined) tool.function.description = description;
  if (parameters !== undefined) tool.function.parameters = parameters;
  if (strict !== undefined) tool.function.strict = strict;
  return { tool, param: given.param('parameters') };
}

function choose(body: Fields, tools: ReadTool[]): { offered: ReadTool[]; toolChoice: ChatRequest['toolChoice'] } {
  const choice = body.get('tool_choice');
  if (choice === undefined || choice === 'auto') return { offered: tools, toolChoice: 'auto' };
  if (choice === 'none') return { offered: tools, toolChoice: 'none' };
  if (choice === 'required') {
    if (tools.length === 0) throw wrongValue('tool_choice', 'tools to choose from', choice);
    return { offered: tools, toolChoice: 'required' };
  }
  if (typeof choice === 'string') throw wrongValue('tool_choice', '"auto", "none", "required" or a named function', choice);
  if (!isObject(choice)) throw wrongType('tool_choice', '"auto", "none", "required" or a named function', choice);
  const fields = Fields.of(choice, 'tool_choice');
  fields.word('type', ['function']);
  const name = Fields.of(fields.get('function'), 'tool_choice.function').name('name', maxNameLength);
  // "This one" is "some one" where it is the only one offered.
  const named = tools.filter(({ tool }) => tool.function.name === name);
  if (named.length === 0) throw wrongValue('tool_choice.function.name', 'the name of one of the tools', name);
  return { offered: named, toolChoice: 'required' };
}
