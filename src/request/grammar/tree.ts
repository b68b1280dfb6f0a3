// The tree between parsing and GBNF, for regular expressions and Lark grammars: characters, texts
// and their order. Pure. Called by the other files of this folder.
import { RecuaError } from '../../errors.js';
import { property, type Characters } from './characters.js';

export type Tree =
  /** One of these characters. */
  | { kind: 'characters'; of: Characters }
  | { kind: 'text'; text: string }
  | { kind: 'sequence'; items: readonly Tree[] }
  | { kind: 'choice'; ways: readonly Tree[] }
  /** `max` may be Infinity. */
  | { kind: 'repeat'; item: Tree; min: number; max: number }
  /** A reference to a rule, by its number. */
  | { kind: 'rule'; rule: number }
  /** The beginning or end of the whole text; removed once it is known to be there. */
  | { kind: 'edge'; edge: 'begin' | 'end'; at: number };

export const nothing: Tree = { kind: 'text', text: '' };

/** Joins consecutive texts. */
export function sequence(items: readonly Tree[]): Tree {
  const joined: Tree[] = [];
  for (const item of items) {
    const last = joined.at(-1);
    if (item.kind === 'text' && last?.kind === 'text') joined[joined.length - 1] = { kind: 'text', text: last.text + item.text };
    else joined.push(item);
  }
  return joined.length === 1 ? joined[0]! : { kind: 'sequence', items: joined };
}

export function choice(ways: readonly Tree[]): Tree {
  return ways.length === 1 ? ways[0]! : { kind: 'choice', ways };
}

export function repeat(item: Tree, min: number, max: number): Tree {
  return min === 1 && max === 1 ? item : { kind: 'repeat', item, min, max };
}

/** Most characters of a regular expression or a grammar. */
export const maxDefinition = 65_536;
/** Largest counted repetition. */
export const maxTimes = 100_000;
/** Nesting of groups. */
export const maxDepth = 100;

/** What the grammars of one request have cost so far. */
export class Spent {
  steps = 0;
  /** Of GBNF. */
  characters = 0;
  readonly properties = new Set<string>();
}

/** Limits the work for one definition, counted in steps so that it is the same on every machine. */
export class Budget {
  static readonly steps = 500_000;
  /** Of GBNF. */
  static readonly characters = 1_048_576;
  static readonly properties = 8;
  readonly #refuse: (why: string) => RecuaError;
  readonly #spent: Spent;

  /** `spent`: what other grammars of the request have cost, if it has several. */
  constructor(refuse: (why: string) => RecuaError, spent = new Spent()) {
    this.#refuse = refuse;
    this.#spent = spent;
  }

  step(count = 1): void {
    this.#spent.steps += count;
    if (this.#spent.steps > Budget.steps) {
      throw this.#refuse(`it is too large: reading it would take over ${Budget.steps} steps`);
    }
  }

  /** A Unicode property; undefined if none has that name. */
  property(name: string): Characters | undefined {
    this.#spent.properties.add(name);
    if (this.#spent.properties.size > Budget.properties) {
      throw this.#refuse(`it has over ${Budget.properties} Unicode properties`);
    }
    const found = property(name);
    this.step(found?.length);
    return found;
  }

  write(characters: number): void {
    this.#spent.characters += characters;
    if (this.#spent.characters <= Budget.characters) return;
    throw this.#refuse(`it is too large: its grammar would have over ${Budget.characters} characters`);
  }
}

export function invalid(param: string, message: string): RecuaError {
  return new RecuaError('invalid_grammar', message, { param });
}
