// A regular expression → a tree. Pure. Called by constraint and lark. The whole text must match.
// Syntax that JavaScript, Python and Rust share has the same meaning here. Constructs that are not
// regular (lookaround, backreferences) are refused with their place. Lazy repetitions match the
// same texts as greedy ones.
import type { RecuaError } from '../../errors.js';
import {
  anyCase, common, digits, everything, lastCharacter, lineFeed, namedClasses, single,
  spaces, union, without, wordCharacters, type Characters,
} from './characters.js';
import {
  choice, maxDepth, maxTimes, nothing, repeat, sequence, type Budget, type Tree,
} from './tree.js';

export interface RegexOptions {
  budget: Budget;
  /** Makes the error: `at` is a place in the expression, counted in UTF-16 units from 0. */
  refuse(why: string, at: number): RecuaError;
  ignoreCase?: boolean;
  /** `.` also matches a line break. */
  dotAll?: boolean;
}

/** @throws the error that `refuse` makes */
export function readRegex(source: string, options: RegexOptions): Tree {
  return atEdges(new RegexReader(source, options).read(), true, true, options);
}

/** A counted repetition, or a literal brace if there is no digit in it. Takes linear time. */
const counts = /\{(\d*)(?:(,)(\d*))?\}/y;

interface Flags {
  ignoreCase: boolean;
  dotAll: boolean;
}

class RegexReader {
  readonly #source: string;
  readonly #options: RegexOptions;
  #at = 0;
  #flags: Flags;

  constructor(source: string, options: RegexOptions) {
    this.#source = source;
    this.#options = options;
    this.#flags = { ignoreCase: options.ignoreCase ?? false, dotAll: options.dotAll ?? false };
  }

  read(): Tree {
    const tree = this.#alternatives(0);
    if (this.#at < this.#source.length) throw this.#wrong('a group is closed but was not opened');
    return tree;
  }

  #wrong(why: string, at = this.#at): RecuaError {
    return this.#options.refuse(why, at);
  }

  #peek(text: string): boolean {
    return this.#source.startsWith(text, this.#at);
  }

  #take(text: string): boolean {
    if (!this.#peek(text)) return false;
    this.#at += text.length;
    return true;
  }

  #next(): number {
    const character = this.#source.codePointAt(this.#at);
    if (character === undefined) throw this.#wrong('it ends too early');
    this.#at += character > 0xffff ? 2 : 1;
    return character;
  }

  #alternatives(depth: number): Tree {
    if (depth > maxDepth) throw this.#wrong(`its groups are nested over ${maxDepth} deep`);
    const before = { ...this.#flags };
    const ways = [this.#sequence(depth)];
    while (this.#take('|')) ways.push(this.#sequence(depth));
    this.#flags = before;
    return choice(ways);
  }

  #sequence(depth: number): Tree {
    const items: Tree[] = [];
    while (this.#at < this.#source.length && !this.#peek('|') && !this.#peek(')')) {
      this.#options.budget.step();
      const item = this.#item(depth);
      if (item) items.push(this.#times(item));
    }
    return sequence(items);
  }

  /** Undefined for a comment, or for flags that change how the rest is read. */
  #item(depth: number): Tree | undefined {
    const at = this.#at;
    const character = String.fromCodePoint(this.#next());
    switch (character) {
      case '.':
        return { kind: 'characters', of: this.#flags.dotAll ? everything : without(lineFeed) };
      case '[':
        return this.#characters(this.#brackets(at));
      case '\\':
        return this.#escaped(at);
      case '(':
        return this.#group(at, depth);
      case '^':
        return { kind: 'edge', edge: 'begin', at };
      case '$':
        return { kind: 'edge', edge: 'end', at };
      case '*': case '+': case '?':
        throw this.#wrong('there is nothing to repeat', at);
      case '{':
        this.#at = at;
        if (this.#counted()) throw this.#wrong('there is nothing to repeat; write \\{ for the brace itself', at);
        return this.#characters(single(this.#next()));
      default:
        return this.#characters(single(character.codePointAt(0)!));
    }
  }

  #characters(of: Characters): Tree {
    const [first] = of;
    const isOne = of.length === 1 && first![0] === first![1] && !this.#flags.ignoreCase;
    if (isOne && (first![0] < 0xd800 || first![0] > 0xdfff)) return { kind: 'text', text: String.fromCodePoint(first![0]) };
    return { kind: 'characters', of: this.#flags.ignoreCase ? this.#anyCase(of) : of };
  }

  #anyCase(of: Characters): Characters {
    return anyCase(of, (steps) => this.#options.budget.step(steps));
  }

  #group(at: number, depth: number): Tree | undefined {
    const before = { ...this.#flags };
    if (this.#take('?')) {
      if (this.#take('#')) {
        const end = this.#source.indexOf(')', this.#at);
        if (end < 0) throw this.#wrong('a comment is not closed', at);
        this.#at = end + 1;
        return undefined;
      }
      if (this.#peek('=') || this.#peek('!')) throw this.#wrong('it looks ahead, which is not supported', at);
      if (this.#peek('<=') || this.#peek('<!')) throw this.#wrong('it looks behind, which is not supported', at);
      if (this.#peek('>')) throw this.#wrong('it has an atomic group; write (?:…) instead', at);
      if (this.#peek('P=') || this.#peek('P>')) throw this.#wrong('it refers back to a group', at);
      if (this.#peek('(')) throw this.#wrong('it has a condition', at);
      if (this.#take('P<') || this.#take('<')) this.#name(at);
      else if (this.#setsFlags(at)) return undefined;
    }
    const inner = this.#alternatives(depth + 1);
    if (!this.#take(')')) throw this.#wrong('a group is not closed', at);
    this.#flags = before;
    return inner;
  }

  #name(at: number): void {
    const [name] = /^[A-Za-z_$][\w$]{0,99}(?=>)/.exec(this.#source.slice(this.#at, this.#at + 101)) ?? [];
    if (name === undefined) throw this.#wrong('a group has no valid name', at);
    this.#at += name.length + 1;
  }

  /** True if the flags apply to the rest of the surrounding group. */
  #setsFlags(at: number): boolean {
    const ahead = this.#source.slice(this.#at, this.#at + 20);
    const [all, on = '', off = '', end] = /^([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])/.exec(ahead) ?? [];
    if (all === undefined) throw this.#wrong('it has a group of an unknown kind', at);
    for (const flag of on + off) {
      // m and u change nothing: edges are those of the whole text, and characters are Unicode's.
      if (!'imsu'.includes(flag)) throw this.#wrong(`it has the flag ${flag}; supported are i, m, s, u`, at);
    }
    this.#at += all.length;
    const set = (flag: string, now: boolean): boolean => (on.includes(flag) ? true : off.includes(flag) ? false : now);
    this.#flags = { ignoreCase: set('i', this.#flags.ignoreCase), dotAll: set('s', this.#flags.dotAll) };
    return end === ')';
  }

  /** The item with the repetition after it, if there is one. */
  #times(item: Tree): Tree {
    const at = this.#at;
    const times = this.#howOften();
    if (!times) return item;
    const [min, max] = times;
    if (item.kind === 'edge') throw this.#wrong('there is nothing to repeat', at);
    if (max < min) throw this.#wrong(`it repeats something at least ${min} and at most ${max} times`, at);
    if (min > maxTimes || (max > maxTimes && max !== Infinity)) throw this.#wrong(`it repeats something over ${maxTimes} times`, at);
    // A lazy repetition matches the same texts.
    if (!this.#take('?') && this.#peek('+')) throw this.#wrong('it has a possessive repetition; remove the second +');
    if (this.#peek('*') || this.#peek('+') || this.#peek('?')) throw this.#wrong('there is nothing to repeat');
    return repeat(item, min, max);
  }

  #howOften(): [number, number] | undefined {
    if (this.#take('*')) return [0, Infinity];
    if (this.#take('+')) return [1, Infinity];
    return this.#take('?') ? [0, 1] : this.#counted();
  }

  /** Undefined for a literal brace. */
  #counted(): [number, number] | undefined {
    counts.lastIndex = this.#at;
    const [all, low, comma, high = ''] = counts.exec(this.#source) ?? [];
    if (all === undefined || (low === '' && high === '')) return undefined;
    this.#at += all.length;
    // Infinity would mean no limit.
    const read = (count: string): number => Math.min(Number(count), Number.MAX_SAFE_INTEGER);
    return [read(low!), comma === undefined ? read(low!) : high === '' ? Infinity : read(high)];
  }

  #escaped(at: number): Tree {
    if (this.#at >= this.#source.length) throw this.#wrong('it ends with a backslash', at);
    if (this.#take('A')) return { kind: 'edge', edge: 'begin', at };
    if (this.#take('z') || this.#take('Z')) return { kind: 'edge', edge: 'end', at };
    if (this.#take('Q')) throw this.#wrong('it has \\Q; escape each character with a backslash instead', at);
    return this.#characters(this.#escape(at, false));
  }

  /** The escape after a backslash at `at`. */
  #escape(at: number, inBrackets: boolean): Characters {
    const character = this.#next();
    switch (String.fromCodePoint(character)) {
      case 'd': return digits;
      case 'D': return without(digits);
      case 'w': return wordCharacters;
      case 'W': return without(wordCharacters);
      case 's': return spaces;
      case 'S': return without(spaces);
      case 't': return single(9);
      case 'n': return single(10);
      case 'v': return single(11);
      case 'f': return single(12);
      case 'r': return single(13);
      case 'a': return single(7);
      case 'e': return single(27);
      case '0': return single(0);
      case 'x': return single(this.#hexadecimal(2, at));
      case 'u': return single(this.#unit(at));
      case 'U': return single(this.#hexadecimal(8, at));
      case 'c': return single(this.#next() & 31);
      case 'p': return this.#property(at, false);
      case 'P': return this.#property(at, true);
      case 'b':
        if (inBrackets) return single(8);
        throw this.#wrong('it has \\b, the edge of a word, which is not supported', at);
      case 'B':
        throw this.#wrong('it has \\B, which is not supported', at);
      case 'k':
        throw this.#wrong('it refers back to a group', at);
      default:
        if (character >= 0x31 && character <= 0x39) throw this.#wrong('it refers back to a group', at);
        if (/[A-Za-z]/.test(String.fromCodePoint(character))) throw this.#wrong(`it has the unknown escape \\${String.fromCodePoint(character)}`, at);
        return single(character);
    }
  }

  #hexadecimal(digitCount: number, at: number): number {
    const pattern = this.#peek('{') ? /^\{([0-9a-fA-F]{1,8})\}/ : new RegExp(`^([0-9a-fA-F]{${digitCount}})`);
    const [all, number] = pattern.exec(this.#source.slice(this.#at, this.#at + 10)) ?? [];
    if (all === undefined) throw this.#wrong('an escape has too few hexadecimal digits', at);
    this.#at += all.length;
    const character = parseInt(number!, 16);
    if (character > lastCharacter) throw this.#wrong('an escape is beyond the last Unicode character', at);
    return character;
  }

  #unit(at: number): number {
    const high = this.#hexadecimal(4, at);
    if (high < 0xd800 || high > 0xdfff) return high;
    if (high < 0xdc00 && this.#take('\\u')) {
      const low = this.#hexadecimal(4, at);
      if (low >= 0xdc00 && low <= 0xdfff) return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    }
    throw this.#wrong('an escape is half a surrogate pair', at);
  }

  #property(at: number, negated: boolean): Characters {
    const [all, braced, letter] = /^(?:\{\^?([\w=]{1,60})\}|([A-Z]))/.exec(this.#source.slice(this.#at, this.#at + 64)) ?? [];
    const name = braced ?? letter;
    if (all === undefined || name === undefined) throw this.#wrong('a Unicode property has no valid name', at);
    this.#at += all.length;
    const found = this.#options.budget.property(name);
    if (!found) throw this.#wrong(`Unicode has no property ${name}`, at);
    return negated !== all.startsWith('{^') ? without(found) : found;
  }

  #brackets(at: number): Characters {
    const negated = this.#take('^');
    if (this.#peek(']')) throw this.#wrong('a class is empty; write \\] for the bracket itself', at);
    const sets: Characters[] = [];
    while (!this.#take(']')) {
      this.#options.budget.step();
      if (this.#at >= this.#source.length) throw this.#wrong('a class is not closed', at);
      if (this.#peek('&&') || this.#peek('--')) throw this.#wrong('it has an operation on classes, which is not supported; list the characters instead');
      const first = this.#oneOfClass();
      const isOne = first.length === 1 && first[0]![0] === first[0]![1];
      if (!isOne || !this.#peek('-') || this.#source[this.#at + 1] === ']') {
        sets.push(first);
        continue;
      }
      const dash = this.#at++;
      const last = this.#oneOfClass();
      if (last.length !== 1 || last[0]![0] !== last[0]![1]) throw this.#wrong('a range ends with a class of characters', dash);
      if (last[0]![0] < first[0]![0]) throw this.#wrong('a range ends before it begins', dash);
      sets.push([[first[0]![0], last[0]![0]]]);
    }
    this.#options.budget.step(sets.reduce((sum, set) => sum + set.length, 0));
    // Before negation, so that [^a] with ignoreCase excludes both cases.
    const set = this.#flags.ignoreCase ? this.#anyCase(union(...sets)) : union(...sets);
    return negated ? without(set) : set;
  }

  #oneOfClass(): Characters {
    const at = this.#at;
    const [named, not, name] = /^\[:(\^?)([a-z]{1,10}):\]/.exec(this.#source.slice(at, at + 16)) ?? [];
    if (named !== undefined) {
      const found = Object.hasOwn(namedClasses, name!) ? namedClasses[name!] : undefined;
      if (!found) throw this.#wrong(`there is no class [:${name}:]`, at);
      this.#at += named.length;
      return not === '^' ? without(found) : found;
    }
    const character = this.#next();
    return character === 0x5c ? this.#escape(at, true) : single(character);
  }
}

/**
 * Removes ^ and $ at the edges of the whole text, and refuses them elsewhere, where nothing would
 * match.
 */
function atEdges(tree: Tree, first: boolean, last: boolean, options: RegexOptions): Tree {
  options.budget.step();
  switch (tree.kind) {
    case 'edge':
      if (tree.edge === 'begin' ? first : last) return nothing;
      throw options.refuse('^ and $ are allowed at its edges only', tree.at);
    case 'choice':
      return choice(tree.ways.map((way) => atEdges(way, first, last, options)));
    case 'sequence': {
      const isEdge = (item: Tree): boolean => item.kind === 'edge';
      const from = tree.items.findIndex((item) => !isEdge(item));
      const to = tree.items.findLastIndex((item) => !isEdge(item));
      return sequence(tree.items.map((item, index) => (
        atEdges(item, first && (from < 0 || index <= from), last && (to < 0 || index >= to), options)
      )));
    }
    case 'repeat':
      return { ...tree, item: atEdges(tree.item, first && tree.max <= 1, last && tree.max <= 1, options) };
    case 'characters':
      // Surrogates are not characters.
      if (common(tree.of, [[0, 0xd7ff], [0xe000, lastCharacter]]).length > 0) return tree;
      throw options.refuse('it has a class that matches no character', 0);
    default:
      return tree;
  }
}
