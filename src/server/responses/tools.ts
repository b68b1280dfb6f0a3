// `tools` and `tool_choice` of a request. Called by response-request. Pure. To the model, a custom
// tool, which takes text instead of JSON, is a function with one string. A tool in a namespace
// (Codex uses these for MCP servers) gets one name joined from both.
import type { ChatRequest } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { customNames, readCustomTool } from '../../request/custom-tools.js';
import { describe, Fields, isObject, wrongType } from '../../request/fields.js';
import { Spent } from '../../request/grammar/tree.js';
import { chooseByObject, chooseByWord, maxToolName, maxTools, readTool, writeTools, type Choice, type ReadTool } from '../../request/tool-text.js';

export interface ResponseTools {
  request: Pick<ChatRequest, 'tools' | 'toolSources' | 'toolChoice' | 'parallelToolCalls'>;
  /** Names of custom tools. */
  custom: readonly string[];
  /** Keyed by the names that the model sees. */
  namespaced: ReadonlyMap<string, Namespaced>;
  warnings: string[];
}

export interface Namespaced {
  namespace: string;
  name: string;
}

/** The name that the model sees. */
export function joinedName({ namespace, name }: Namespaced): string {
  return namespace.endsWith('__') ? namespace + name : `${namespace}__${name}`;
}

export function readTools(body: Fields): ResponseTools {
  const warnings: string[] = [];
  const tools: ReadTool[] = [];
  const namespaced = new Map<string, Namespaced>();
  const spent = new Spent();
  let count = 0;
  const add = (read: ReadTool, namespace: string | undefined): void => {
    const told = read.tool.function;
    if (namespace !== undefined) {
      const own = { namespace, name: told.name };
      told.name = joinedName(own);
      namespaced.set(told.name, own);
    }
    tools.push(read);
  };
  const read = (fields: Fields, namespace?: string): void => {
    const type = fields.string('type');
    if (type !== 'namespace' && ++count > maxTools) {
      throw new RecuaError('invalid_value', `Expected at most ${maxTools} tools for tools, with those in namespaces, got more.`, { param: 'tools' });
    }
    if (type === 'function') add(readTool(fields, 'parameters'), namespace);
    else if (type === 'custom') add(readCustomTool(fields, tools.length, spent), namespace);
    else if (type === 'namespace' && namespace === undefined) {
      const name = fields.name('name', maxToolName);
      listed(fields).forEach((one) => read(one, name));
    } else if (type === undefined) throw wrongType(fields.param('type'), '"function" or "custom"', undefined);
    // Agents also offer tools that only OpenAI's models or servers support.
    else warnings.push(`The tool ${describe(type)} is left out: this server supports function, custom and namespace.`);
  };
  listed(body).forEach((one) => read(one));
  const { offered, toolChoice } = choose(body, tools);
  return { request: { ...writeTools(offered), toolChoice, parallelToolCalls: body.boolean('parallel_tool_calls') }, custom: customNames(tools), namespaced, warnings };
}

function listed(fields: Fields): Fields[] {
  return (fields.array('tools', maxTools) ?? []).map((value, index) => Fields.of(value, `${fields.param('tools')}[${index}]`));
}

function choose(body: Fields, tools: ReadTool[]): Choice {
  const choice = body.get('tool_choice');
  const byWord = chooseByWord(choice, tools, 'tool_choice');
  if (byWord) return byWord;
  if (!isObject(choice)) throw wrongType('tool_choice', '"auto", "none", "required" or an object', choice);
  const fields = Fields.of(choice, 'tool_choice');
  if (fields.string('type') === undefined) throw wrongType(fields.param('type'), 'a type', undefined);
  return chooseByObject(fields, tools);
}
