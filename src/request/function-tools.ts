// Tools and tool choice in the format of OpenAI's and Ollama's clients. Pure.
import type { ChatRequest } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { customNames, readCustomTool } from './custom-tools.js';
import { describe, Fields, isObject, wrongType, wrongValue } from './fields.js';
import { Spent } from './grammar/tree.js';
import { chooseByObject, chooseByWord, maxTools, readTool, writeTools, type Choice, type ReadTool } from './tool-text.js';

export interface ToolFields {
  request: Pick<ChatRequest, 'tools' | 'toolSources' | 'toolChoice' | 'parallelToolCalls'>;
  /** Names of custom tools. */
  custom: readonly string[];
}

export function readTools(body: Fields): ToolFields {
  const tools = readList(body, true);
  const { offered, toolChoice } = choose(body, tools);
  return { request: { ...writeTools(offered), toolChoice, parallelToolCalls: body.boolean('parallel_tool_calls') }, custom: customNames(tools) };
}

/** Function tools only, for dialects without custom tools. There, a tool may have no type. */
export function readFunctions(body: Fields): ReadTool[] {
  return readList(body, false);
}

function readList(body: Fields, takesCustom: boolean): ReadTool[] {
  const spent = new Spent();
  return (body.array('tools', maxTools) ?? []).map((tool, index) => {
    const fields = Fields.of(tool, `tools[${index}]`);
    const type = fields.string('type') ?? (takesCustom ? undefined : 'function');
    if (takesCustom && type === 'custom') return readCustomTool(fields.fields('custom') ?? fields, index, spent);
    return readFunction(fields, type);
  });
}

function readFunction(fields: Fields, type: string | undefined): ReadTool {
  if (type === undefined) throw wrongType(fields.param('type'), '"function"', undefined);
  if (type !== 'function') {
    throw new RecuaError('unsupported_parameter',
      `Expected "function" for ${fields.param('type')}, got ${describe(type)}; tools that run on the server are not supported.`,
      { param: fields.param('type') });
  }
  const given = fields.fields('function');
  if (given === undefined) throw wrongType(fields.param('function'), 'an object', undefined);
  return readTool(given, 'parameters');
}

function choose(body: Fields, tools: ReadTool[]): Choice {
  const choice = body.get('tool_choice');
  const byWord = chooseByWord(choice, tools, 'tool_choice');
  if (byWord) return byWord;
  const expected = '"auto", "none", "required", a named tool or allowed tools';
  if (typeof choice === 'string') throw wrongValue('tool_choice', expected, choice);
  if (!isObject(choice)) throw wrongType('tool_choice', expected, choice);
  return chooseByObject(Fields.of(choice, 'tool_choice'), tools);
}
