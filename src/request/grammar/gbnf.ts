// Trees → GBNF, for plain text or for text inside a JSON string, where some characters are escaped.
// Pure. Called by constraint and custom-input.
import { common, lastCharacter, type Characters } from './characters.js';
import type { Budget, Tree } from './tree.js';

/** `json`: between the quotes of a JSON string. */
export type Spelling = 'plain' | 'json';

/** One rule per line: the first tree is the rule `root`, the others are `root-1` and so on. */
export function writeRules(rules: readonly Tree[], root: string, spelling: Spelling, budget: Budget): string {
  const nameOf = (rule: number): string => (rule === 0 ? root : `${root}-${rule}`);
  const writer = new Writer(nameOf, spelling, budget);
  return rules.map((tree, rule) => `${nameOf(rule)} ::= ${writer.ways(tree)}\n`).join('');
}

class Writer {
  readonly #nameOf: (rule: number) => string;
  readonly #spelling: Spelling;
  readonly #budget: Budget;
  readonly #written = new Map<Characters, string>();

  constructor(nameOf: (rule: number) => string, spelling: Spelling, budget: Budget) {
    this.#nameOf = nameOf;
    this.#spelling = spelling;
    this.#budget = budget;
  }

  ways(tree: Tree): string {
    return tree.kind === 'choice' ? tree.ways.map((way) => this.#way(way)).join(' | ') : this.#way(tree);
  }

  #way(tree: Tree): string {
    const written = tree.kind === 'sequence' ? tree.items.map((item) => this.#one(item)).filter((item) => item !== '').join(' ') : this.#one(tree);
    return written === '' ? '""' : written;
  }

  /** '' means the empty text. */
  #one(tree: Tree): string {
    this.#budget.step();
    const written = this.#write(tree);
    this.#budget.write(written.length + 1);
    return written;
  }

  #write(tree: Tree): string {
    switch (tree.kind) {
      case 'text':
        return tree.text === '' ? '' : quoted(this.#spelling === 'plain' ? tree.text : JSON.stringify(tree.text).slice(1, -1));
      case 'characters':
        return this.#characters(tree.of);
      case 'rule':
        return this.#nameOf(tree.rule);
      case 'repeat':
        return this.#repeat(tree);
      case 'sequence':
      case 'choice':
        return `(${this.ways(tree)})`;
      case 'edge':
        return '';
    }
  }

  #repeat({ item, min, max }: Tree & { kind: 'repeat' }): string {
    if (max === 0) return '';
    const one = this.#one(item);
    if (one === '') return '';
    const whole = item.kind === 'repeat' ? `(${one})` : one;
    if (max === Infinity) return min === 0 ? `${whole}*` : min === 1 ? `${whole}+` : `${whole}{${min},}`;
    if (min === 0 && max === 1) return `${whole}?`;
    return min === max ? `${whole}{${min}}` : `${whole}{${min},${max}}`;
  }

  #characters(of: Characters): string {
    const before = this.#written.get(of);
    if (before !== undefined) return before;
    this.#budget.step(of.length);
    const written = this.#spelling === 'plain' ? `[${classOf(common(of, characters))}]` : escapedClass(of);
    this.#written.set(of, written);
    return written;
  }
}

/** Surrogates are not characters. */
const characters: Characters = [[0, 0xd7ff], [0xe000, lastCharacter]];
/** Characters that need no escape in a JSON string. */
const unescaped: Characters = [[0x20, 0x21], [0x23, 0x5b], [0x5d, 0x7e], [0x80, 0xd7ff], [0xe000, lastCharacter]];

const escapes: ReadonlyMap<number, string> = new Map([[0x22, '"'], [0x5c, '\\\\'], [8, 'b'], [9, 't'], [10, 'n'], [12, 'f'], [13, 'r']]);

/**
 * Uses the escapes that all JSON writers use. Control characters that only have a numeric escape
 * are left out if the class has other characters.
 */
function escapedClass(of: Characters): string {
  const plain = classOf(common(of, unescaped));
  const letters: string[] = [];
  const numbers: string[] = [];
  for (const [from, to] of of) {
    for (let character = from; character <= Math.min(to, 0x7f); character++) {
      const letter = escapes.get(character);
      if (letter !== undefined) letters.push(letter);
      else if (character < 0x20 || character === 0x7f) numbers.push(`"\\\\u${character.toString(16).padStart(4, '0')}"`);
    }
  }
  const ways = [...(plain === '' ? [] : [`[${plain}]`]), ...(letters.length === 0 ? [] : [`"\\\\" [${letters.join('')}]`])];
  if (ways.length === 0) ways.push(...numbers);
  return ways.length === 1 && !ways[0]!.includes(' ') ? ways[0]! : `(${ways.join(' | ')})`;
}

function classOf(of: Characters): string {
  return of.map(([from, to]) => {
    if (from === to) return inClass(from);
    return to === from + 1 ? inClass(from) + inClass(to) : `${inClass(from)}-${inClass(to)}`;
  }).join('');
}

/** Numeric escapes for characters with a meaning in a class, and for unprintable ones. */
function inClass(character: number): string {
  if (character > 0xffff) return `\\U${character.toString(16).padStart(8, '0')}`;
  const isPlain = character > 0x20 && character < 0x7f && !'\\[]-^"'.includes(String.fromCodePoint(character));
  if (isPlain) return String.fromCodePoint(character);
  return character < 0x100 ? `\\x${character.toString(16).padStart(2, '0')}` : `\\u${character.toString(16).padStart(4, '0')}`;
}

function quoted(text: string): string {
  const inner = Array.from(text, (character) => {
    if (character === '"' || character === '\\') return `\\${character}`;
    const number = character.codePointAt(0)!;
    return number < 0x20 || number === 0x7f ? `\\x${number.toString(16).padStart(2, '0')}` : character;
  }).join('');
  return `"${inner}"`;
}
