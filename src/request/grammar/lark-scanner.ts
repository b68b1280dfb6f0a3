// A Lark grammar's text → its tokens, each with its line. Pure. Called by lark.
import type { RecuaError } from '../../errors.js';
import type { Budget } from './tree.js';

export interface Token {
  kind: 'name' | 'string' | 'regex' | 'number' | 'mark' | 'end-of-line';
  /** The unescaped text of a string; the part between the slashes of a regular expression. */
  text: string;
  /** Letters after a string or a regular expression. */
  flags: string;
  line: number;
}

export class LarkScanner {
  readonly #source: string;
  readonly #budget: Budget;
  readonly #wrong: (why: string, line: number) => RecuaError;
  #at = 0;
  #line = 1;

  constructor(source: string, budget: Budget, wrong: (why: string, line: number) => RecuaError) {
    this.#source = source;
    this.#budget = budget;
    this.#wrong = wrong;
  }

  /** All tokens; the last one is an end of line. */
  tokens(): Token[] {
    const tokens: Token[] = [];
    while (this.#at < this.#source.length) {
      this.#budget.step();
      const token = this.#next();
      if (token) tokens.push(token);
    }
    tokens.push(this.#token('end-of-line', ''));
    return tokens;
  }

  #token(kind: Token['kind'], text: string, flags = ''): Token {
    return { kind, text, flags, line: this.#line };
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const [found] = pattern.exec(this.#source) ?? [];
    if (found) this.#at += found.length;
    return found || undefined;
  }

  #next(): Token | undefined {
    if (this.#match(/[ \t\r]+/y) !== undefined || this.#match(/(?:\/\/|#)[^\n]*/y) !== undefined) return undefined;
    if (this.#match(/\\\r?\n/y) !== undefined) {
      this.#line++;
      return undefined;
    }
    if (this.#match(/\n/y) !== undefined) {
      const token = this.#token('end-of-line', '');
      this.#line++;
      return token;
    }
    const name = this.#match(/[_A-Za-z][_A-Za-z0-9]*/y);
    if (name !== undefined) return this.#token('name', name);
    const number = this.#match(/-?\d{1,9}/y);
    if (number !== undefined) return this.#token('number', number);
    if (this.#source[this.#at] === '"') return this.#string();
    if (this.#source[this.#at] === '/') return this.#regex();
    const mark = this.#match(/->|\.\.|[:|()[\]?*+~!.,%{}<>=$]/y);
    if (mark !== undefined) return this.#token('mark', mark);
    throw this.#wrong(`it has ${JSON.stringify(String.fromCodePoint(this.#source.codePointAt(this.#at)!))}, which starts no token`, this.#line);
  }

  #string(): Token {
    const found = this.#match(/"(?:[^"\\\n]|\\[^\n])*"/y);
    if (found === undefined) throw this.#wrong('a string is not closed', this.#line);
    const flags = this.#match(/[a-zA-Z]{1,8}/y) ?? '';
    return this.#token('string', this.#unescape(found.slice(1, -1)), flags);
  }

  #regex(): Token {
    // As in Lark, a slash ends the expression even inside a class.
    const found = this.#match(/\/(?:[^/\\\n]|\\[^\n])+\//y);
    if (found === undefined) throw this.#wrong('a regular expression is not closed, or empty', this.#line);
    const flags = this.#match(/[a-zA-Z]{1,8}/y) ?? '';
    return this.#token('regex', found.slice(1, -1).replaceAll('\\/', '/'), flags);
  }

  #unescape(text: string): string {
    const unescaped = this.#withoutEscapes(text);
    if (!unescaped.isWellFormed()) throw this.#wrong('a string has half a surrogate pair', this.#line);
    return unescaped;
  }

  #withoutEscapes(text: string): string {
    const letters: Record<string, string> = { n: '\n', t: '\t', r: '\r', f: '\f', v: '\v', b: '\b', a: '\x07', '0': '\0', '\\': '\\', '"': '"', '/': '/', '\'': '\'' };
    return text.replace(/\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([^]))/g, (all, two?: string, four?: string, eight?: string, letter?: string) => {
      const number = two ?? four ?? eight;
      if (number !== undefined && parseInt(number, 16) <= 0x10ffff) return String.fromCodePoint(parseInt(number, 16));
      const known = letter === undefined ? undefined : letters[letter];
      if (known === undefined) throw this.#wrong(`a string has the unknown escape ${all}`, this.#line);
      return known;
    });
  }
}
