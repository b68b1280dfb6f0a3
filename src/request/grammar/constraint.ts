// A constraint on the answer's text (a regular expression, a choice of texts, a Lark grammar) → a
// GBNF grammar. Pure. Called by everything that reads a request's constraints.
import type { Constraint } from '../../engine/protocol.js';
import { checkName, describe, wrongType, wrongValue } from '../fields.js';
import { readLark } from './lark.js';
import { readRegex } from './regex.js';
import { writeRules } from './gbnf.js';
import { Budget, choice, invalid, maxDefinition, type Tree } from './tree.js';

const maxChoices = 10_000;

/** The whole answer matches `regex`. `param` is the request's field. */
export function regexConstraint(regex: unknown, param: string): Constraint {
  const budget = new Budget((why) => invalid(param, `The regular expression of ${param} cannot be enforced: ${why}.`));
  return grammarOf([regexTree(regex, param, budget)], param, budget);
}

/** The answer is one of these texts. */
export function choiceConstraint(choices: unknown, param: string): Constraint {
  if (!Array.isArray(choices)) throw wrongType(param, 'an array of strings', choices);
  if (choices.length === 0 || choices.length > maxChoices) throw wrongValue(param, `1 to ${maxChoices} texts`, choices);
  const budget = new Budget((why) => invalid(param, `${param} cannot be enforced: ${why}.`));
  const ways = choices.map((text: unknown, index): Tree => ({ kind: 'text', text: checkName(text, `${param}[${index}]`, maxDefinition) }));
  return grammarOf([choice(ways)], param, budget);
}

/** GBNF if it contains "::=", else Lark. */
export function grammarConstraint(grammar: unknown, param: string): Constraint {
  if (typeof grammar !== 'string') throw wrongType(param, 'a string', grammar);
  if (grammar.includes('::=')) return { kind: 'grammar', grammar, param, afterThoughts: true };
  const budget = new Budget((why) => invalid(param, `The Lark grammar of ${param} cannot be enforced: ${why}.`));
  return grammarOf(larkTrees(checkDefinition(grammar, param), param, budget), param, budget);
}

/** @throws RecuaError `invalid_grammar` with the line at fault. */
export function larkTrees(definition: string, param: string, budget: Budget): Tree[] {
  return readLark(definition, {
    budget,
    refuse: (why, line) => invalid(param, `The Lark grammar of ${param} cannot be enforced: in line ${line} ${why}.`),
  });
}

/** @throws RecuaError `invalid_grammar` with the place at fault. */
export function regexTree(regex: unknown, param: string, budget: Budget): Tree {
  const source = checkDefinition(regex, param);
  return readRegex(source, {
    budget,
    refuse: (why, at) => invalid(param, `The regular expression of ${param} cannot be enforced: at character ${at + 1}, ${describe(source.slice(at, at + 12))}, ${why}.`),
  });
}

export function checkDefinition(definition: unknown, param: string): string {
  if (typeof definition !== 'string') throw wrongType(param, 'a string', definition);
  if (definition === '' || definition.length > maxDefinition) throw wrongValue(param, `a string of 1 to ${maxDefinition} characters`, definition);
  return definition;
}

function grammarOf(rules: readonly Tree[], param: string, budget: Budget): Constraint {
  return { kind: 'grammar', grammar: writeRules(rules, 'root', 'plain', budget), param, afterThoughts: true };
}
