// Reads a request's JSON object field by field: every getter checks type and range and names the
// field at fault. Called by everything in server/ that turns a request's fields into the engine's.
// `null` counts as absent, since clients send it that way.
import { RecuaError } from '../errors.js';

/** The largest integer that may be passed to native code. */
export const int32Max = 2_147_483_647;

export interface Range {
  min?: number | undefined;
  max?: number | undefined;
  /** Values outside that are allowed, too. */
  besides?: readonly number[] | undefined;
}

/** What a reader asks of a field: its kind, and the bounds of its value. */
export type Ask =
  | { kind: 'any' | 'boolean' | 'object' | 'idle' }
  | { kind: 'number' | 'integer'; range: Range }
  | { kind: 'string'; maxLength?: number }
  | { kind: 'word'; words: readonly string[] }
  | { kind: 'array'; maxLength: number };

type Watcher = (param: string, ask: Ask) => void;

let watcher: Watcher | undefined;

/**
 * The watcher is called for each field that a reader asks for, present or not, with its full name.
 */
export function watchAsks(next: Watcher | undefined): void {
  watcher = next;
}

/** Calls the watcher, for readers of something else than an object, such as a query string. */
export function tellAsk(param: string, ask: Ask): void {
  watcher?.(param, ask);
}

/** The received value, short enough for one sentence. */
export function describe(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (typeof value === 'string') return value.length > 40 ? `a string of ${value.length} characters` : JSON.stringify(value);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (value === null) return 'null';
  if (typeof value === 'object') return 'an object';
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'symbol') return value.toString();
  // Not JSON.stringify: 1e309 parses to Infinity, which JSON cannot represent.
  return `${value as number | boolean}`;
}

export function wrongType(param: string, expected: string, value: unknown): RecuaError {
  return new RecuaError('invalid_type', `Expected ${expected} for ${param}, got ${describe(value)}.`, { param });
}

export function wrongValue(param: string, expected: string, value: unknown): RecuaError {
  return new RecuaError('invalid_value', `Expected ${expected} for ${param}, got ${describe(value)}.`, { param });
}

export function isObject(value: unknown): value is Record<string, unknown> {
  // A Map would be an object without fields.
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Map) && !(value instanceof Set);
}

/** A finite number in the range; an integer if `integer` is set. */
export function checkNumber(value: unknown, param: string, { min, max, besides = [] }: Range, integer = false): number {
  watcher?.(param, { kind: integer ? 'integer' : 'number', range: { min, max, besides } });
  const noun = integer ? 'an integer' : 'a number';
  if (typeof value !== 'number') throw wrongType(param, noun, value);
  // 1e309 parses to Infinity; 2.5 is a number but not an integer.
  if (!Number.isFinite(value) || (integer && !Number.isInteger(value))) throw wrongType(param, noun, value);
  if (besides.includes(value)) return value;
  if ((min !== undefined && value < min) || (max !== undefined && value > max)) {
    const bounds = min === undefined ? `of at most ${max}` : max === undefined ? `of at least ${min}` : `from ${min} to ${max}`;
    throw wrongValue(param, `${noun} ${bounds}${besides.length === 0 ? '' : `, or ${besides.join(' or ')}`}`, value);
  }
  return value;
}

/** A non-empty string of at most `maxLength` characters. */
export function checkName(value: unknown, param: string, maxLength: number): string {
  watcher?.(param, { kind: 'string', maxLength });
  if (typeof value !== 'string') throw wrongType(param, 'a string', value);
  if (value === '' || value.length > maxLength) throw wrongValue(param, `a string of 1 to ${maxLength} characters`, value);
  return value;
}

export class Fields {
  readonly #object: Record<string, unknown>;
  readonly #path: string;
  readonly #asked = new Set<string>();
  readonly #inner = new Map<string, Fields>();

  private constructor(object: Record<string, unknown>, path: string) {
    this.#object = object;
    this.#path = path;
  }

  /**
   * The fields of `value`, which must be an object. `path` is its full name, '' for the whole body.
   */
  static of(value: unknown, path = ''): Fields {
    if (path !== '') watcher?.(path, { kind: 'object' });
    if (isObject(value)) return new Fields(value, path);
    if (path !== '') throw wrongType(path, 'an object', value);
    throw new RecuaError('invalid_type', `Expected a JSON object as the request body, got ${describe(value)}.`);
  }

  /** Full name of this object, '' for the whole body. */
  get path(): string {
    return this.#path;
  }

  /** The full name of a field, as error bodies state it. */
  param(name: string): string {
    return this.#path === '' ? name : `${this.#path}.${name}`;
  }

  /** The raw value; undefined where it is absent or null. */
  get(name: string): unknown {
    return this.#ask(name, { kind: 'any' });
  }

  /** The raw value of a field that another reader asks for. */
  peek(name: string): unknown {
    return Object.hasOwn(this.#object, name) ? this.#object[name] : undefined;
  }

  #ask(name: string, ask: Ask): unknown {
    this.#asked.add(name);
    watcher?.(this.param(name), ask);
    return Object.hasOwn(this.#object, name) ? (this.#object[name] ?? undefined) : undefined;
  }

  number(name: string, range: Range): number | undefined {
    const value = this.#ask(name, { kind: 'number', range });
    return value === undefined ? undefined : checkNumber(value, this.param(name), range);
  }

  integer(name: string, range: Range): number | undefined {
    const value = this.#ask(name, { kind: 'integer', range });
    return value === undefined ? undefined : checkNumber(value, this.param(name), range, true);
  }

  boolean(name: string): boolean | undefined {
    const value = this.#ask(name, { kind: 'boolean' });
    if (value === undefined || typeof value === 'boolean') return value;
    throw wrongType(this.param(name), 'true or false', value);
  }

  string(name: string): string | undefined {
    const value = this.#ask(name, { kind: 'string' });
    if (value === undefined || typeof value === 'string') return value;
    throw wrongType(this.param(name), 'a string', value);
  }

  /** A required, non-empty string. */
  name(name: string, maxLength: number): string {
    const value = checkName(this.#ask(name, { kind: 'string', maxLength }), this.param(name), maxLength);
    if (/\p{Cc}/u.test(value)) throw wrongValue(this.param(name), 'a name without control characters', value);
    return value;
  }

  /** One of the listed strings. */
  word<Word extends string>(name: string, words: readonly Word[]): Word | undefined {
    watcher?.(this.param(name), { kind: 'word', words });
    const value = this.string(name);
    if (value === undefined || (words as readonly string[]).includes(value)) return value as Word | undefined;
    throw wrongValue(this.param(name), `${words.length > 1 ? 'one of ' : ''}${words.map((word) => JSON.stringify(word)).join(', ')}`, value);
  }

  array(name: string, maxLength: number): unknown[] | undefined {
    const value = this.#ask(name, { kind: 'array', maxLength });
    if (value === undefined) return undefined;
    if (!Array.isArray(value)) throw wrongType(this.param(name), 'an array', value);
    if (value.length > maxLength) throw wrongValue(this.param(name), `at most ${maxLength} entries`, value);
    return value as unknown[];
  }

  /** A nested object as it is, to pass on. */
  object(name: string): Record<string, unknown> | undefined {
    const value = this.#ask(name, { kind: 'object' });
    if (value === undefined || isObject(value)) return value;
    throw wrongType(this.param(name), 'an object', value);
  }

  /** A nested object's fields. */
  fields(name: string): Fields | undefined {
    const value = this.#ask(name, { kind: 'object' });
    if (value === undefined) return undefined;
    const fields = this.#inner.get(name) ?? Fields.of(value, this.param(name));
    this.#inner.set(name, fields);
    return fields;
  }

  /** Accepts these fields without effect. */
  allow(...names: readonly string[]): void {
    for (const name of names) this.#ask(name, { kind: 'idle' });
  }

  /** Names that a reader has asked for so far, present or not. */
  get asked(): ReadonlySet<string> {
    return this.#asked;
  }

  /**
   * Names that have a value and that no reader has asked for: perhaps hundreds of thousands, of
   * which the first hundred are cheap.
   */
  *unasked(): Generator<string> {
    for (const name of Object.keys(this.#object)) {
      if (!this.#asked.has(name) && (this.#object[name] ?? undefined) !== undefined) yield name;
    }
  }

  /** Objects inside this one that were read by `fields`. */
  get inner(): Iterable<Fields> {
    return this.#inner.values();
  }
}
