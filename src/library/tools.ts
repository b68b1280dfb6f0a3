// Tools that a program offers to the model: describing them, and running the ones the model calls.
import type { ChatRequest } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { checkName, Fields, isObject, wrongType, wrongValue } from '../request/fields.js';
import { chooseByWord, maxToolName, maxTools, offerNamed, writeTools, type Choice, type ReadTool } from '../request/tool-text.js';
import { toJson, type Message, type ToolCall } from './messages.js';
import { checkBySchema, jsonSchemaOf, type FromSchema, type Schema } from './schema.js';

/** What `execute` learns about the call. */
export interface ToolContext {
  /** The `id` of the call. */
  id: string;
  /** Aborts when the answer is cancelled, or its model is disposed of. */
  signal: AbortSignal;
}

/**
 * A tool that the model may call. Define it with {@link tool}, which types the arguments of
 * `execute`.
 */
export interface Tool<S extends Schema = Schema> {
  /** What the tool does and when to use it; the model reads this. */
  description?: string | undefined;
  /** Schema of its arguments, an object. Default: no arguments. */
  parameters?: S | undefined;
  /**
   * Runs the tool. The library sends its result to the model, a string as it is and anything else
   * as JSON, and the model continues. If it throws, the answer rejects with that error. Without
   * `execute`, the answer ends with the call.
   */
  execute?: ((args: FromSchema<S>, context: ToolContext) => unknown) | undefined;
}

/** Any tool, whatever its arguments. */
export interface AnyTool {
  description?: string | undefined;
  parameters?: Schema | undefined;
  execute?: ((args: never, context: ToolContext) => unknown) | undefined;
}

/** Tools by name. */
export type Tools = Readonly<Record<string, AnyTool>>;

/**
 * Which tools the model may call: `'auto'` any or none, `'required'` at least one, `'none'` none,
 * `{ name }` that one. If the template's format allows text before a call, `maxTokens` may end an
 * answer before its call.
 */
export type ToolChoice = 'auto' | 'required' | 'none' | { readonly name: string };

/** Returns the tool unchanged; TypeScript infers the arguments of `execute` from `parameters`. */
export function tool<const S extends Schema>(definition: Tool<S>): Tool<S> {
  return definition;
}

interface AskedTools {
  /** For the first answer. */
  asked: Pick<ChatRequest, 'tools' | 'toolSources' | 'toolChoice' | 'parallelToolCalls'>;
  /** All of them, for the answers after tool results: a named tool is offered alone only once. */
  all: Pick<ChatRequest, 'tools' | 'toolSources'>;
}

/** Reads a request's tools for the engine. */
export function readTools(fields: Fields): AskedTools {
  const given = fields.get('tools');
  if (Array.isArray(given)) throw wrongType('tools', 'an object with the tools by name, such as { get_weather: tool }', given);
  const tools = Object.entries(fields.object('tools') ?? {}).map(([name, definition]) => describeTool(name, Fields.of(definition, `tools.${name}`)));
  if (tools.length > maxTools) throw wrongValue('tools', `at most ${maxTools} tools`, tools);
  const { offered, toolChoice } = choose(fields.get('toolChoice'), tools);
  const all = writeTools(tools);
  return { asked: { ...(offered === tools ? all : writeTools(offered)), toolChoice, parallelToolCalls: fields.boolean('parallelToolCalls') }, all };
}

function describeTool(name: string, fields: Fields): ReadTool {
  const description = fields.string('description');
  const parameters = fields.get('parameters');
  const execute = fields.get('execute');
  if (execute !== undefined && typeof execute !== 'function') throw wrongType(fields.param('execute'), 'a function', execute);
  return {
    tool: {
      type: 'function',
      function: {
        name: checkName(name, 'tools', maxToolName),
        ...(description === undefined ? {} : { description }),
        parameters: parameters === undefined ? { type: 'object', properties: {} } : plainSchema(parameters, fields.param('parameters')),
      },
    },
    param: fields.param('parameters'),
  };
}

/** Its errors name the tool, unlike those of writing all tools at once. */
function plainSchema(schema: unknown, param: string): object {
  return JSON.parse(toJson(jsonSchemaOf(schema as Schema, param), param)) as object;
}

function choose(choice: unknown, tools: ReadTool[]): Choice {
  const byWord = chooseByWord(choice, tools, 'toolChoice');
  if (byWord) return byWord;
  if (!isObject(choice)) throw wrongValue('toolChoice', "'auto', 'required', 'none' or { name }", choice);
  const { name } = choice;
  if (typeof name !== 'string') throw wrongValue('toolChoice.name', 'the name of one of the tools', name);
  return { offered: offerNamed(tools, [name], 'toolChoice.name'), toolChoice: 'required' };
}

/**
 * Runs the calls and returns their results as messages; undefined if the program has to answer one.
 */
export async function runTools(tools: Tools, calls: readonly ToolCall[], signal: AbortSignal): Promise<Message[] | undefined> {
  const executable = calls.map((call) => (Object.hasOwn(tools, call.name) ? tools[call.name] : undefined));
  if (!executable.every((tool) => typeof tool?.execute === 'function')) return undefined;
  return await Promise.all(calls.map(async (call, index) => {
    const content = await runTool(executable[index]!, call, signal);
    return { role: 'tool' as const, toolCallId: call.id, content };
  }));
}

/** Invalid arguments are the model's mistake: it gets the error as the result and may try again. */
async function runTool({ parameters, execute }: AnyTool, call: ToolCall, signal: AbortSignal): Promise<string> {
  let args: unknown;
  try {
    if (typeof call.arguments === 'string') throw new RecuaError('answer_invalid', 'The arguments are not valid JSON.');
    args = await checkBySchema(parameters, call.arguments);
  } catch (thrown) {
    if (!(thrown instanceof RecuaError && thrown.code === 'answer_invalid')) throw thrown;
    return JSON.stringify({ error: thrown.message });
  }
  const result = await execute!(args as never, { id: call.id, signal });
  // A tool may have cut a text within a character.
  return typeof result === 'string' ? result.toWellFormed() : toJson(result, `the result of ${call.name}`);
}
