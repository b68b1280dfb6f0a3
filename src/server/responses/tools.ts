// `tools` and `tool_choice` of a request. Called by response-request. Pure. A custom tool, which
// takes a text instead of JSON, is a function of one text to the model.
import type { ChatRequest } from '../../engine/protocol.js';
import { customNames, readCustomTool } from '../../request/custom-tools.js';
import { describe, Fields, isObject, wrongType } from '../../request/fields.js';
import { chooseByObject, chooseByWord, maxTools, readTool, writeTools, type Choice, type ReadTool } from '../../request/tool-text.js';

export interface ResponseTools {
  request: Pick<ChatRequest, 'tools' | 'toolSources' | 'toolChoice' | 'parallelToolCalls'>;
  /** Names of custom tools. */
  custom: readonly string[];
  warnings: string[];
}

export function readTools(body: Fields): ResponseTools {
  const warnings: string[] = [];
  const tools: ReadTool[] = [];
  (body.array('tools', maxTools) ?? []).forEach((value, index) => {
    const fields = Fields.of(value, `tools[${index}]`);
    const type = fields.string('type');
    if (type === 'function') tools.push(readTool(fields, 'parameters'));
    else if (type === 'custom') tools.push(readCustomTool(fields, index));
    else if (type === undefined) throw wrongType(fields.param('type'), '"function" or "custom"', undefined);
    // Agents offer what runs at OpenAI whether there is someone to run it or not.
    else warnings.push(`The tool ${describe(type)} is left out: it runs on OpenAI's servers.`);
  });
  const { offered, toolChoice } = choose(body, tools);
  return { request: { ...writeTools(offered), toolChoice, parallelToolCalls: body.boolean('parallel_tool_calls') }, custom: customNames(tools), warnings };
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
