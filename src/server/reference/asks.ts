// Derives a body's schema by watching its reader run over example bodies. Called by document, once
// per body.
import { RecuaError } from '../../errors.js';
import { Fields, isObject, watchAsks, type Ask } from '../../request/fields.js';
import type { FieldWords } from '../../request/words.js';
import type { Body } from './operation.js';
import { named, nullable, type Schema } from './schema.js';

/** Array indices are dropped: all entries of an array have the same fields. */
export function placeOf(param: string): string {
  return param.replace(/\[\d+\]/g, '[]');
}

/** The distinct asks for each place. */
export class Asks {
  readonly #asks = new Map<string, Map<string, Ask>>();

  add(param: string, ask: Ask): void {
    const place = placeOf(param);
    let known = this.#asks.get(place);
    if (!known) this.#asks.set(place, (known = new Map<string, Ask>()));
    known.set(JSON.stringify(ask), ask);
  }

  get places(): readonly string[] {
    return [...this.#asks.keys()];
  }

  of(place: string): Ask[] {
    return [...this.#asks.get(place)?.values() ?? []];
  }

  /** The fields of the object at that place. */
  fieldsOf(place: string): string[] {
    return this.places.flatMap((other) => {
      const { parent, name } = split(other);
      return parent === place && name !== undefined ? [name] : [];
    });
  }
}

function split(place: string): { parent: string; name: string | undefined } {
  if (place.endsWith('[]')) return { parent: place.slice(0, -2), name: undefined };
  const at = place.lastIndexOf('.');
  return at < 0 ? { parent: '', name: place } : { parent: place.slice(0, at), name: place.slice(at + 1) };
}

/** Everything that `read` asks of the examples. */
export function asksOf({ read, examples }: Pick<Body, 'read' | 'examples'>): Asks {
  const asks = new Asks();
  watchAsks((param, ask) => asks.add(param, ask));
  try {
    for (const example of examples) read(Fields.of(copyOf(example)));
  } finally {
    watchAsks(undefined);
  }
  return asks;
}

/** Places that the reader requires wherever their surrounding object is present. */
function requiredOf({ read, examples }: Pick<Body, 'read' | 'examples'>): Set<string> {
  const objects = new Map<string, number>();
  const missed = new Map<string, number>();
  const count = (of: Map<string, number>, place: string): void => void of.set(place, (of.get(place) ?? 0) + 1);
  for (const example of examples) {
    const body = copyOf(example);
    const visit = (value: unknown, path: string): void => {
      if (Array.isArray(value)) return value.forEach((entry, index) => visit(entry, `${path}[${index}]`));
      if (!isObject(value)) return;
      count(objects, placeOf(path));
      for (const [name, inner] of Object.entries(value)) {
        const param = path === '' ? name : `${path}.${name}`;
        delete value[name];
        if (misses(read, body, param)) count(missed, placeOf(param));
        value[name] = inner;
        visit(inner, param);
      }
    };
    visit(body, '');
  }
  return new Set([...missed].filter(([place, times]) => times === objects.get(split(place).parent)).map(([place]) => place));
}

/** Examples share parts, and a structured clone would keep them shared. */
function copyOf(example: object): Record<string, unknown> {
  return JSON.parse(JSON.stringify(example)) as Record<string, unknown>;
}

function misses(read: Body['read'], body: object, param: string): boolean {
  try {
    read(Fields.of(body));
    return false;
  } catch (thrown) {
    return thrown instanceof RecuaError && thrown.param === param;
  }
}

/** A body's schema, and the problems of its words. */
export function bodySchema(body: Body): { schema: Schema; problems: string[] } {
  const writer = new BodySchema(body);
  const schema = named(body.name, writer.object(''));
  return { schema, problems: writer.problems() };
}

/** Accepted because clients send it. */
const idle: FieldWords = { text: 'Accepted, with no effect.', is: [{}] };

class BodySchema {
  readonly #body: Body;
  readonly #asks: Asks;
  readonly #required: ReadonlySet<string>;
  readonly #problems: string[] = [];
  readonly #used = new Set<string>();

  constructor(body: Body) {
    this.#body = body;
    this.#asks = asksOf(body);
    this.#required = requiredOf(body);
  }

  problems(): string[] {
    const idle = Object.keys(this.#body.words).filter((place) => !this.#used.has(place)).map((place) => `${place} has words, and no reader asks for it`);
    return [...this.#problems, ...idle].map((problem) => `${this.#body.name}: ${problem}`);
  }

  object(place: string): Schema {
    const names = this.#asks.fieldsOf(place);
    if (names.length === 0) return { type: 'object' };
    const order = Object.keys(this.#body.words);
    // Fields without words of their own, which have no effect, come last.
    const rank = (at: string): number => (order.includes(at) ? order.indexOf(at) : order.length);
    const placed = names.map((name) => ({ name, at: place === '' ? name : `${place}.${name}` })).sort((a, b) => rank(a.at) - rank(b.at));
    const required = placed.filter(({ at }) => this.#required.has(at)).map(({ name }) => name);
    return {
      type: 'object',
      properties: Object.fromEntries(placed.map(({ name, at }) => [name, this.#field(at)])),
      ...(required.length === 0 ? {} : { required }),
    };
  }

  /** With its description. An optional field may be null, which counts as absent. */
  #field(place: string): Schema {
    const isIdle = this.#asks.of(place).every(({ kind }) => kind === 'idle');
    const words = this.#wordsOf(place) ?? (isIdle ? idle : undefined);
    if (!words) this.#problems.push(`${place} is not described`);
    const schema = this.#value(place, words);
    const whole = this.#required.has(place) ? schema : nullable(schema);
    return {
      ...whole,
      ...(words?.text ? { description: words.text } : {}),
      ...(words?.default === undefined || this.#required.has(place) ? {} : { default: words.default }),
    };
  }

  #wordsOf(place: string): FieldWords | undefined {
    const words = Object.hasOwn(this.#body.words, place) ? this.#body.words[place] : undefined;
    if (words !== undefined) this.#used.add(place);
    return typeof words === 'string' ? { text: words } : words;
  }

  #value(place: string, words: FieldWords | undefined): Schema {
    const asked = this.#asks.of(place);
    const kinds = words?.is ?? [...new Set(asked.map(({ kind }) => kind))].filter((kind) => kind !== 'any' && kind !== 'idle' && !(kind === 'string' && asked.some((other) => other.kind === 'word')));
    if (kinds.length === 0) this.#problems.push(`${place} is asked for as it is: its words do not say what it may be`);
    if (words?.is && words !== idle && !asked.some(({ kind }) => kind === 'any')) this.#problems.push(`${place} is what its reader asks for: its words have no say in that`);
    const all = kinds.map((kind) => (typeof kind === 'string' ? this.#kind(place, kind) : kind as Schema));
    const schema = all.length === 1 ? all[0]! : { anyOf: all };
    return words?.name === undefined ? schema : named(words.name, schema);
  }

  #kind(place: string, kind: Ask['kind']): Schema {
    const asked = this.#asks.of(place).filter((ask) => ask.kind === kind);
    switch (kind) {
      case 'any':
      case 'idle':
      case 'boolean':
        return { type: 'boolean' };
      case 'object':
        return this.object(place);
      case 'word': {
        const words = asked.flatMap((ask) => (ask.kind === 'word' ? ask.words : []));
        return { type: 'string', enum: [...new Set(words)] };
      }
      case 'string': {
        const named = asked.flatMap((ask) => (ask.kind === 'string' && ask.maxLength !== undefined ? [ask.maxLength] : []));
        return { type: 'string', ...(named.length === 0 ? {} : { minLength: 1, maxLength: Math.max(...named) }) };
      }
      case 'array': {
        const [most] = asked.flatMap((ask) => (ask.kind === 'array' ? [ask.maxLength] : []));
        const entry = `${place}[]`;
        const has = this.#asks.of(entry).length > 0;
        return { type: 'array', ...(most === undefined ? {} : { maxItems: most }), ...(has ? { items: this.#value(entry, this.#wordsOf(entry)) } : {}) };
      }
      case 'number':
      case 'integer': {
        const [range] = asked.flatMap((ask) => ('range' in ask ? [ask.range] : []));
        const { min, max, besides = [] } = range ?? {};
        const within = { type: kind, ...(min === undefined ? {} : { minimum: min }), ...(max === undefined ? {} : { maximum: max }) };
        return besides.length === 0 ? within : { anyOf: [within, ...besides.map((value) => ({ const: value }))] };
      }
    }
  }
}
