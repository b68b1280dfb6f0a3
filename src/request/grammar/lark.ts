// A Lark grammar → trees, one per rule, the first of which is `start`. Pure. Called by
// custom-input. It is read as a grammar of characters: there is no lexer, so a terminal may end
// wherever the rest can continue, and priorities have no effect.
import type { RecuaError } from '../../errors.js';
import { readRegex } from './regex.js';
import { commonTerminals } from './lark-common.js';
import { beginsWithItself, withoutLeft } from './left-recursion.js';
import { LarkScanner, type Token } from './lark-scanner.js';
import { anyCase, single, type Characters } from './characters.js';
import {
  choice, maxDepth, maxTimes, repeat, sequence, type Budget, type Tree,
} from './tree.js';

export interface LarkOptions {
  budget: Budget;
  /** Makes the error; lines count from 1. */
  refuse(why: string, line: number): RecuaError;
}

/** @throws the error that `refuse` makes */
export function readLark(source: string, options: LarkOptions): Tree[] {
  return new LarkReader(source, options).read();
}

interface Definition {
  number: number;
  line: number;
  tree: Tree | undefined;
}

const isTerminal = (name: string): boolean => /^_*[A-Z]/.test(name);

class LarkReader {
  readonly #options: LarkOptions;
  readonly #tokens: Token[];
  #at = 0;
  /** By name; a rule that was only referred to has no tree yet. */
  readonly #rules = new Map<string, Definition>();
  /** Of `%ignore`. */
  readonly #ignored: Tree[] = [];
  #ignores = false;
  /** Whether it reads a terminal, inside which nothing is ignored. */
  #inTerminal = false;

  constructor(source: string, options: LarkOptions) {
    this.#options = options;
    this.#tokens = new LarkScanner(source, options.budget, options.refuse).tokens();
    // Must be known from the start: `%ignore` also applies to the rules above it.
    this.#ignores = this.#tokens.some(({ kind, text }, index) => (
      kind === 'mark' && text === '%' && this.#tokens[index + 1]?.text === 'ignore' && this.#tokens[index + 1]?.kind === 'name'
    ));
  }

  read(): Tree[] {
    const start = this.#rule('start', 1);
    const ignored = this.#ignores ? this.#rule('%ignored', 1) : undefined;
    while (this.#at < this.#tokens.length) this.#statement();
    if (!start.tree) throw this.#wrong('it has no rule start', this.#tokens.at(-1)!);
    if (ignored) ignored.tree = repeat(choice(this.#ignored), 0, Infinity);
    const all = [...this.#rules];
    const trees = all.map(([name, { tree, line, number }]) => {
      if (!tree) throw this.#options.refuse(`${isTerminal(name) ? 'the terminal' : 'the rule'} ${name} is not defined; define it, or import it from common`, line);
      const made = withoutLeft(tree, number);
      // What is ignored may also come before everything else.
      if (made) return ignored && number === start.number ? sequence([{ kind: 'rule', rule: ignored.number }, made]) : made;
      throw this.#options.refuse(`the rule ${name} begins with itself and has no other alternative`, line);
    });
    const circle = beginsWithItself(trees, () => this.#options.budget.step());
    if (circle === undefined) return trees;
    const [name, { line }] = all[circle]!;
    throw this.#options.refuse(`the rule ${name} begins with itself through other rules; write the repetition with * or +`, line);
  }

  #wrong(why: string, { line }: { line: number }): RecuaError {
    return this.#options.refuse(why, line);
  }

  #peek(...marks: string[]): boolean {
    const { kind, text } = this.#tokens[this.#at]!;
    return kind === 'mark' && marks.includes(text);
  }

  #take(mark: string): boolean {
    if (!this.#peek(mark)) return false;
    this.#at++;
    return true;
  }

  #next(): Token {
    return this.#tokens[this.#at++]!;
  }

  #expect(kind: Token['kind'], what: string): Token {
    const token = this.#next();
    if (token.kind === kind) return token;
    throw this.#wrong(`it expects ${what}, got ${said(token)}`, token);
  }

  #endLine(): void {
    const token = this.#tokens[this.#at]!;
    if (token.kind !== 'end-of-line') throw this.#wrong(`${said(token)} is not expected here`, token);
    this.#at++;
  }

  #rule(name: string, line: number): Definition {
    const known = this.#rules.get(name);
    if (known) return known;
    const made: Definition = { number: this.#rules.size, line, tree: undefined };
    this.#rules.set(name, made);
    return made;
  }

  #statement(): void {
    this.#options.budget.step();
    if (this.#tokens[this.#at]!.kind === 'end-of-line') {
      this.#at++;
      return;
    }
    if (this.#take('%')) return this.#directive();
    while (this.#peek('?', '!')) this.#at++;
    const name = this.#expect('name', 'a rule, a terminal or a directive');
    if (this.#peek('{')) throw this.#wrong(`the rule ${name.text} is a template; write out its uses`, name);
    if (this.#peek('[')) throw this.#wrong(`the rule ${name.text} has attributes, which are not supported; leave them out`, name);
    if (this.#take('.')) this.#expect('number', 'a priority');
    if (!this.#take(':')) throw this.#wrong(`it expects ":" after ${name.text}, got ${said(this.#tokens[this.#at]!)}`, name);
    const rule = this.#rule(name.text, name.line);
    if (rule.tree) throw this.#wrong(`${name.text} is defined twice`, name);
    rule.line = name.line;
    this.#inTerminal = isTerminal(name.text);
    rule.tree = this.#alternatives(0);
    this.#endLine();
  }

  #directive(): void {
    const directive = this.#expect('name', 'a directive');
    switch (directive.text) {
      case 'ignore':
        this.#inTerminal = true;
        this.#ignored.push(this.#alternatives(0));
        return this.#endLine();
      case 'import':
        return this.#import(directive);
      default:
        throw this.#wrong(`it has %${directive.text}, which is not supported; supported are %import common.… and %ignore`, directive);
    }
  }

  #import(directive: Token): void {
    const library = this.#expect('name', 'the name of a library');
    if (library.text !== 'common') throw this.#wrong(`it imports from ${library.text}, but only common is available; write out the rules instead`, directive);
    const names: [imported: Token, as: string][] = [];
    if (this.#take('(')) {
      do {
        const imported = this.#expect('name', 'a terminal');
        names.push([imported, imported.text]);
      } while (this.#take(','));
      if (!this.#take(')')) throw this.#wrong('a parenthesis is not closed', directive);
    } else {
      if (!this.#take('.')) throw this.#wrong('it imports all of common; name what is needed, as in %import common.LF', directive);
      const imported = this.#expect('name', 'a terminal');
      names.push([imported, this.#take('->') ? this.#expect('name', 'a name').text : imported.text]);
    }
    this.#endLine();
    for (const [imported, as] of names) {
      const source = Object.hasOwn(commonTerminals, imported.text) ? commonTerminals[imported.text] : undefined;
      if (source === undefined) throw this.#wrong(`common has no ${imported.text}; it has ${Object.keys(commonTerminals).join(', ')}`, imported);
      const rule = this.#rule(as, imported.line);
      if (rule.tree) throw this.#wrong(`${as} is defined twice`, imported);
      rule.tree = this.#regex({ ...imported, text: source, flags: '' });
    }
  }

  #alternatives(depth: number): Tree {
    if (depth > maxDepth) throw this.#wrong(`its groups are nested over ${maxDepth} deep`, this.#tokens[this.#at]!);
    const ways = [this.#sequence(depth)];
    for (;;) {
      this.#skipLines(depth);
      if (!this.#take('|')) return choice(ways);
      ways.push(this.#sequence(depth));
    }
  }

  /** Inside parentheses, skips all line ends; elsewhere, only those before a bar. */
  #skipLines(depth: number): void {
    let to = this.#at;
    while (this.#tokens[to]?.kind === 'end-of-line') to++;
    const token = this.#tokens[to];
    if (token && (depth > 0 || (token.kind === 'mark' && token.text === '|'))) this.#at = to;
  }

  #sequence(depth: number): Tree {
    const items: Tree[] = [];
    for (;;) {
      if (depth > 0) this.#skipLines(depth);
      const token = this.#tokens[this.#at];
      if (!token || token.kind === 'end-of-line' || this.#peek('|', ')', ']', '->')) break;
      this.#options.budget.step();
      items.push(this.#times(this.#item(depth)));
    }
    if (this.#take('->')) this.#expect('name', 'a name after ->');
    return sequence(items);
  }

  #item(depth: number): Tree {
    const token = this.#next();
    switch (token.kind) {
      case 'name':
        if (this.#peek('{')) throw this.#wrong(`it uses ${token.text} as a template; write out what it stands for`, token);
        return this.#inRule({ kind: 'rule', rule: this.#rule(token.text, token.line).number }, isTerminal(token.text));
      case 'regex':
        return this.#inRule(this.#regex(token), true);
      case 'string':
        return this.#inRule(this.#take('..') ? this.#range(token) : this.#string(token), true);
      case 'mark':
        if (token.text === '(' || token.text === '[') {
          const inner = this.#alternatives(depth + 1);
          this.#skipLines(depth + 1);
          if (!this.#take(token.text === '(' ? ')' : ']')) throw this.#wrong(`"${token.text}" is not closed`, token);
          return token.text === '(' ? inner : repeat(inner, 0, 1);
        }
        if (token.text === '<') throw this.#wrong('it names a special token with <…>, which is not supported; write its text as a string', token);
        if (token.text === '%') throw this.#wrong('it has % inside a rule, which is not supported', token);
        break;
      default:
    }
    throw this.#wrong(`${said(token)} is not expected here`, token);
  }

  /** Ignored text may follow each token of a rule. */
  #inRule(tree: Tree, isToken: boolean): Tree {
    if (!this.#ignores || this.#inTerminal || !isToken) return tree;
    return sequence([tree, { kind: 'rule', rule: this.#rule('%ignored', 1).number }]);
  }

  #regex(token: Token): Tree {
    for (const flag of token.flags) {
      if (!'imslu'.includes(flag)) throw this.#wrong(`a regular expression has the flag ${flag}; supported are i, m, s, l, u`, token);
    }
    return readRegex(token.text, {
      budget: this.#options.budget,
      ignoreCase: token.flags.includes('i'),
      dotAll: token.flags.includes('s'),
      refuse: (why, at) => this.#wrong(`the regular expression /${shorten(token.text)}/ cannot be enforced: at its character ${at + 1} ${why}`, token),
    });
  }

  #string(token: Token): Tree {
    if (token.flags !== '' && token.flags !== 'i') throw this.#wrong(`a string has the flag ${token.flags}; only i is supported`, token);
    if (token.flags === '') return { kind: 'text', text: token.text };
    return sequence(Array.from(token.text, (character) => ({ kind: 'characters', of: this.#anyCase(character) })));
  }

  #anyCase(character: string): Characters {
    return anyCase(single(character.codePointAt(0)!), (steps) => this.#options.budget.step(steps));
  }

  #range(from: Token): Tree {
    const to = this.#expect('string', 'the end of a range');
    const ends = [from, to].map(({ text }) => [...text]);
    if (ends.some(({ length }) => length !== 1)) throw this.#wrong('a range goes from one character to another', from);
    const [first, last] = ends.map(([character]) => character!.codePointAt(0)!) as [number, number];
    if (last < first) throw this.#wrong('a range ends before it begins', from);
    return { kind: 'characters', of: [[first, last]] };
  }

  #times(item: Tree): Tree {
    let tree = item;
    for (;;) {
      if (this.#take('?')) tree = repeat(tree, 0, 1);
      else if (this.#take('*')) tree = repeat(tree, 0, Infinity);
      else if (this.#take('+')) tree = repeat(tree, 1, Infinity);
      else if (this.#take('~')) {
        const low = this.#expect('number', 'a number after ~');
        const min = Number(low.text);
        const max = this.#take('..') ? Number(this.#expect('number', 'a number after ..').text) : min;
        if (min < 0 || max < min || max > maxTimes) throw this.#wrong(`it repeats something ${min}..${max} times; expected 0 to ${maxTimes}, the smaller first`, low);
        tree = repeat(tree, min, max);
      } else return tree;
    }
  }
}

function said({ kind, text }: Token): string {
  return kind === 'end-of-line' ? 'the end of the line' : JSON.stringify(shorten(text));
}

function shorten(text: string): string {
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
