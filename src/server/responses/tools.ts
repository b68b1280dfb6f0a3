// `tools` and `tool_choice` of a request. Called by response-request. Pure. A custom tool, which
// takes a text instead of JSON, is a function of one text to the model.
import type { ChatRequest } from '../../engine/protocol.js';
import { describe, Fields, isObject, wrongType } from '../../request/fields.js';
import { chooseByWord, maxToolName, maxTools, offerNamed, readTool, writeTools, type Choice, type ReadTool } from '../../request/tool-text.js';

export interface ResponseTools {
  request: Pick<ChatRequest, 'tools' | 'toolSources' | 'toolChoice' | 'parallelToolCalls'>;
  /** Names of custom tools. */
  custom: readonly string[];
  warnings: string[];
}

export function readTools(body: Fields): ResponseTools {
  const custom: string[] = [];
  const warnings: string[] = [];
  const tools: ReadTool[] = [];
  (body.array('tools', maxTools) ?? []).forEach((value, index) => {
    const fields = Fields.of(value, `tools[${index}]`);
    const type = fields.string('type');
    if (type === 'function') tools.push(readTool(fields, 'parameters'));
    else if (type === 'custom') {
      tools.push(readCustom(fields, warnings));
      custom.push(tools.at(-1)!.tool.function.name);
    } else if (type === undefined) throw wrongType(fields.param('type'), '"function" or "custom"', undefined);
    // Agents offer what runs at OpenAI whether there is someone to run it or not.
    else warnings.push(`The tool ${describe(type)} is left out: it runs on OpenAI's servers.`);
  });
  const { offered, toolChoice } = choose(body, tools);
  return { request: { ...writeTools(offered), toolChoice, parallelToolCalls: body.boolean('parallel_tool_calls') }, custom, warnings };
}

function readCustom(fields: Fields, warnings: string[]): ReadTool {
  const name = fields.name('name', maxToolName);
  const format = fields.fields('format');
  const definition = format?.string('definition');
  if (definition !== undefined) warnings.push(`The grammar of the tool ${name} is told to the model and not enforced.`);
  const description = [fields.string('description'), definition === undefined ? undefined : `The input must match this ${format!.string('syntax') ?? 'grammar'}:\n${definition}`];
  return {
    tool: {
      type: 'function',
      function: {
        name, description: description.filter((text) => text !== undefined).join('\n\n'),
        parameters: { type: 'object', properties: { input: { type: 'string' } }, required: ['input'], additionalProperties: false },
      },
    },
    param: fields.param('format'),
  };
}

function choose(body: Fields, tools: ReadTool[]): Choice {
  const choice = body.get('tool_choice');
  const byWord = chooseByWord(choice, tools, 'tool_choice');
  if (byWord) return byWord;
  if (!isObject(choice)) throw wrongType('tool_choice', '"auto", "none", "required" or an object', choice);
  const fields = Fields.of(choice, 'tool_choice');
  const type = fields.word('type', ['function', 'custom', 'allowed_tools']);
  if (type === undefined) throw wrongType(fields.param('type'), 'a type', undefined);
  if (type === 'allowed_tools') {
    const names = (fields.array('tools', maxTools) ?? []).map((tool, index) => Fields.of(tool, `tool_choice.tools[${index}]`).name('name', maxToolName));
    return { offered: offerNamed(tools, names, 'tool_choice.tools'), toolChoice: fields.word('mode', ['auto', 'required']) ?? 'auto' };
  }
  return { offered: offerNamed(tools, [fields.name('name', maxToolName)], 'tool_choice.name'), toolChoice: 'required' };
}
