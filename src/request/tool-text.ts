// The tools of a request: the part that all readers share, and the form that the engine takes: the
// tools' JSON, and for each tool what error messages need.
import type { ChatRequest, InputRules, Tool } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { Fields, wrongType, wrongValue } from './fields.js';

/** OpenAI's limit is 128, which agents with several tool servers exceed. */
export const maxTools = 1_024;
export const maxToolName = 256;

/** A tool, and the request's field that its parameters come from. */
export interface ReadTool {
  tool: Tool;
  param: string;
  /** It takes a text instead of JSON. */
  custom?: boolean;
  /** The rules for that text. */
  input?: InputRules;
}

/** `schema`: name of the field with its parameters. */
export function readTool(fields: Fields, schema: string): ReadTool {
  const tool: Tool = { type: 'function', function: { name: fields.name('name', maxToolName) } };
  const description = fields.string('description');
  // True allows any object.
  const parameters = fields.get(schema) === true ? { type: 'object' } : fields.object(schema);
  const strict = fields.boolean('strict');
  if (description !== undefined) tool.function.description = description;
  if (parameters !== undefined) tool.function.parameters = parameters;
  if (strict !== undefined) tool.function.strict = strict;
  return { tool, param: fields.param(schema) };
}

/** The tools that the model is offered, and whether it has to call one. */
export interface Choice {
  offered: ReadTool[];
  toolChoice: ChatRequest['toolChoice'];
}

/** Reads OpenAI's words; undefined if `choice`, the value of `param`, is none of them. */
export function chooseByWord(choice: unknown, tools: ReadTool[], param: string): Choice | undefined {
  if (choice === undefined || choice === 'auto') return { offered: tools, toolChoice: 'auto' };
  if (choice === 'none') return { offered: tools, toolChoice: 'none' };
  return choice === 'required' ? { offered: tools, toolChoice: requireSome(tools, choice, param) } : undefined;
}

/** A required call needs at least one tool. */
export function requireSome(tools: ReadTool[], word: string, param: string): 'required' {
  if (tools.length === 0) throw wrongValue(param, 'tools to choose from', word);
  return 'required';
}

/** A named tool is forced by offering it alone. `param`: the field with the names. */
export function offerNamed(tools: ReadTool[], names: readonly string[], param: string): ReadTool[] {
  const named = tools.filter(({ tool }) => names.includes(tool.function.name));
  if (named.length === 0) throw wrongValue(param, 'the name of one of the tools', names.length === 1 ? names[0] : names);
  return named;
}

/**
 * OpenAI's objects: one tool, or several allowed ones. Chats put the fields of a type in an object
 * of its name, Responses put them next to the type.
 */
export function chooseByObject(fields: Fields, tools: ReadTool[]): Choice {
  const type = fields.word('type', ['function', 'custom', 'allowed_tools']);
  if (type !== 'allowed_tools') {
    const { name, param } = namedBy(fields, type ?? 'function');
    return { offered: offerNamed(tools, [name], param), toolChoice: 'required' };
  }
  const allowed = fields.fields('allowed_tools') ?? fields;
  const mode = allowed.word('mode', ['auto', 'required']) ?? 'auto';
  const listed = allowed.array('tools', maxTools);
  if (listed === undefined) throw wrongType(allowed.param('tools'), 'an array of tools', undefined);
  const param = allowed.param('tools');
  const names = listed.map((one, index) => {
    const tool = Fields.of(one, `${param}[${index}]`);
    const named = namedBy(tool, tool.word('type', ['function', 'custom']) ?? 'function');
    offerNamed(tools, [named.name], named.param);
    return named.name;
  });
  return { offered: offerNamed(tools, names, param), toolChoice: mode };
}

function namedBy(fields: Fields, type: 'function' | 'custom'): { name: string; param: string } {
  const inside = fields.get('name') === undefined ? Fields.of(fields.get(type), fields.param(type)) : fields;
  return { name: inside.name('name', maxToolName), param: inside.param('name') };
}

/** @throws RecuaError `invalid_type` for what JSON cannot hold. */
export function writeTools(tools: readonly ReadTool[]): Pick<ChatRequest, 'tools' | 'toolSources'> {
  const toolSources = tools.map(({ tool: { function: { name, strict = false } }, param, input }) => (
    { name, strict, param, ...(input ? { input } : {}) }
  ));
  try {
    return { tools: tools.length === 0 ? '' : JSON.stringify(tools.map(({ tool }) => tool)), toolSources };
  } catch (cause) {
    throw new RecuaError('invalid_type', `Expected tools that can be written as JSON: ${(cause as Error).message}`, { param: 'tools', cause });
  }
}
