// The format of a custom tool's input, a regular expression or a Lark grammar → rules for the
// input, in both spellings that chat templates use for a text. Pure. Called by the readers of
// tools.
import type { InputRules } from '../../engine/protocol.js';
import { wrongType, type Fields } from '../fields.js';
import { checkDefinition, larkTrees, regexTree } from './constraint.js';
import { writeRules } from './gbnf.js';
import { Budget, invalid, type Spent } from './tree.js';

export interface CustomFormat {
  syntax: 'lark' | 'regex';
  definition: string;
  rules: Omit<InputRules, 'root'>;
}

/**
 * `fields` has `syntax` and `definition`; `root` is the name for the first rule. All formats of a
 * request share the limits: `spent` is what those before have cost.
 * @throws RecuaError `invalid_grammar` with the place at fault.
 */
export function readCustomFormat(fields: Fields, root: string, spent: Spent): CustomFormat {
  const syntax = fields.word('syntax', ['lark', 'regex']);
  if (syntax === undefined) throw wrongType(fields.param('syntax'), '"lark" or "regex"', undefined);
  const param = fields.param('definition');
  const definition = checkDefinition(fields.get('definition'), param);
  const what = syntax === 'lark' ? 'The Lark grammar' : 'The regular expression';
  const budget = new Budget((why) => invalid(param, `${what} of ${param} cannot be enforced: ${why}.`), spent);
  const trees = syntax === 'regex' ? [regexTree(definition, param, budget)] : larkTrees(definition, param, budget);
  return {
    syntax, definition,
    rules: { plain: writeRules(trees, root, 'plain', budget), json: writeRules(trees, root, 'json', budget) },
  };
}
