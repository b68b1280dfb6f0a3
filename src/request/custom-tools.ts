// Custom tools, which take a text instead of JSON. To the model each is a function with one string,
// `input`, which is sampled in the tool's format. Pure. Called by the readers of tools.
import { describe, wrongValue, type Fields } from './fields.js';
import { readCustomFormat } from './grammar/custom-input.js';
import type { Spent } from './grammar/tree.js';
import { maxToolName, type ReadTool } from './tool-text.js';

/** `index`: position among the request's tools; `spent`: what their formats have cost so far. */
export function readCustomTool(fields: Fields, index: number, spent: Spent): ReadTool {
  const name = fields.name('name', maxToolName);
  const described = fields.string('description');
  const format = fields.fields('format');
  const type = format?.word('type', ['text', 'grammar']);
  // Chats put the fields of a grammar in an object, Responses put them next to the type.
  const grammar = type === 'grammar' ? format!.fields('grammar') ?? format! : undefined;
  if (type !== 'grammar' && format?.get('definition') !== undefined) throw wrongValue(format.param('type'), '"grammar" with a definition', type ?? describe(type));
  const root = `input-of-${index}`;
  const read = grammar && readCustomFormat(grammar, root, spent);
  const told = read && `The input must match this ${read.syntax === 'lark' ? 'Lark grammar' : 'regular expression'}:\n${read.definition}`;
  return {
    tool: {
      type: 'function',
      function: {
        name,
        description: [described, told].filter((text) => text !== undefined).join('\n\n'),
        parameters: { type: 'object', properties: { input: { type: 'string' } }, required: ['input'], additionalProperties: false },
      },
    },
    param: fields.param('format'),
    custom: true,
    ...(read ? { input: { root, ...read.rules } } : {}),
  };
}

/** Names of the custom tools, whose calls have another format in answers. */
export function customNames(tools: readonly ReadTool[]): string[] {
  return tools.filter(({ custom }) => custom).map(({ tool }) => tool.function.name);
}
