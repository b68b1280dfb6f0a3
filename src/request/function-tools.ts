// Tools as OpenAI's clients, and Ollama's, describe them, and what the model may do with them.
// Pure.
import type { ChatRequest } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { describe, Fields, isObject, wrongType, wrongValue } from './fields.js';
import { chooseByWord, maxToolName, maxTools, offerNamed, readTool, writeTools, type Choice, type ReadTool } from './tool-text.js';

export function readTools(body: Fields): Pick<ChatRequest, 'tools' | 'toolSources' | 'toolChoice' | 'parallelToolCalls'> {
  const tools = readFunctions(body);
  const { offered, toolChoice } = choose(body, tools);
  return { ...writeTools(offered), toolChoice, parallelToolCalls: body.boolean('parallel_tool_calls') };
}

export function readFunctions(body: Fields): ReadTool[] {
  return (body.array('tools', maxTools) ?? []).map((tool, index) => readFunction(Fields.of(tool, `tools[${index}]`)));
}

function readFunction(fields: Fields): ReadTool {
  const type = fields.string('type');
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
  if (typeof choice === 'string') throw wrongValue('tool_choice', '"auto", "none", "required" or a named function', choice);
  if (!isObject(choice)) throw wrongType('tool_choice', '"auto", "none", "required" or a named function', choice);
  const fields = Fields.of(choice, 'tool_choice');
  fields.word('type', ['function']);
  const name = Fields.of(fields.get('function'), 'tool_choice.function').name('name', maxToolName);
  return { offered: offerNamed(tools, [name], 'tool_choice.function.name'), toolChoice: 'required' };
}
