// JSON with long lists, made a slice at a time: a reply may have millions of log probabilities, and
// nothing else runs while a text is made of them. And JSON with values that are JSON texts already.
// Used by the exchanges and by stream.
import { randomUUID } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';

/** A longer list is converted a part at a time. */
const shortList = 64;
/** Stands for a value within an entry of a list. Nobody can guess it. */
const listMark = randomUUID();
/** Letters of a part: they take a few milliseconds. */
const partLetters = 64 * 1024;

/** Set while jsonParts looks for values to write by itself. */
let found: { values: (Iterable<unknown> | JsonText)[]; mark: string } | undefined;

/** A value as a model wrote it: JavaScript would round the digits of large numbers. */
export class JsonText {
  readonly text: string;

  /** @param text valid JSON */
  constructor(text: string) {
    // In a stream of lines, it must not break one.
    this.text = text.replace(/[\r\n]+/g, ' ');
  }

  toJSON(): unknown {
    if (!found) return JSON.parse(this.text);
    found.values.push(this);
    return found.mark;
  }
}

/** A list whose entries are made only when they are written. */
export class LongList<Entry> implements Iterable<Entry> {
  readonly #entries: () => Iterable<Entry>;

  constructor(entries: () => Iterable<Entry>) {
    this.#entries = entries;
  }

  [Symbol.iterator](): Iterator<Entry> {
    return this.#entries()[Symbol.iterator]();
  }

  toJSON(): Entry[] | string {
    if (!found) return [...this];
    found.values.push(this);
    return found.mark;
  }
}

/** The JSON of an object, in parts that take a few milliseconds each. */
export function* jsonParts(value: object): Generator<string, void, undefined> {
  const mark = randomUUID();
  const values: (Iterable<unknown> | JsonText)[] = [];
  found = { values, mark };
  let text: string;
  try {
    text = JSON.stringify(value, (_, one: unknown) => {
      if (!Array.isArray(one) || one.length <= shortList) return one;
      values.push(one);
      return mark;
    });
  } finally {
    found = undefined;
  }
  const [first, ...rest] = text.split(`"${mark}"`);
  yield first!;
  for (const [index, after] of rest.entries()) {
    const value = values[index]!;
    if (value instanceof JsonText) yield value.text;
    else yield* listParts(value);
    yield after;
  }
}

function* listParts(list: Iterable<unknown>): Generator<string, void, undefined> {
  let part = '[';
  let isFirst = true;
  for (const entry of list) {
    part += `${isFirst ? '' : ','}${entryText(entry)}`;
    isFirst = false;
    if (part.length < partLetters) continue;
    yield part;
    part = '';
  }
  yield `${part}]`;
}

const textOf: (value: unknown) => string | undefined = JSON.stringify;

function entryText(entry: unknown): string {
  const mark = listMark;
  const values: (Iterable<unknown> | JsonText)[] = [];
  found = { values, mark };
  let text: string;
  try {
    // In lists, what has no JSON is null.
    text = textOf(entry) ?? 'null';
  } finally {
    found = undefined;
  }
  if (values.length === 0) return text;
  const [first, ...rest] = text.split(`"${mark}"`);
  return first + rest.map((after, index) => {
    const value = values[index]!;
    return (value instanceof JsonText ? value.text : [...listParts(value)].join('')) + after;
  }).join('');
}

/** The JSON of an object, made with turns for other work. */
export async function jsonText(value: object): Promise<string> {
  let text = '';
  for (const part of jsonParts(value)) {
    if (text !== '') await setImmediate();
    text += part;
  }
  return text;
}
