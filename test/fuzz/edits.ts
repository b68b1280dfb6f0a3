// Edits of a valid value, text or byte string: most hostile input is made this way. An edit gives
// its place as numbers that fit any input, so that each edit can be left out and the case shrinks.
import fc from 'fast-check';

export interface Edit {
  /** The entry at each level, by its remainder. */
  steps: number[];
  how: 'set' | 'drop' | 'repeat' | 'rename' | 'wrap';
  value: unknown;
}

const letters = fc.oneof({ weight: 2, arbitrary: fc.integer({ min: 0, max: 0x7f }) }, fc.integer({ min: 0, max: 0x10ffff }));

/** From all characters. fast-check's own arbitraries keep a map of a hundred megabytes. */
export const anyText = (maxLength: number): fc.Arbitrary<string> =>
  fc.array(letters, { maxLength }).map((codes) => String.fromCodePoint(...codes));

/** Values that no client should send. */
export const strangeValues: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(null, true, false, 0, -1, 1, 2, 1.5, 2 ** 31, -(2 ** 31), 2 ** 53, -(2 ** 63), 1e300, 5e-324, '', 'x', '\u0000', 'auto', 'required', 'none', 'NaN', 'Infinity',
    '@raw:1e309@', '@raw:-1e309@', '@raw:1e-320@', '@raw:99999999999999999999999@', '@raw:-0@', '@raw:"\\ud800"@', '@raw:"\\udfff\\ud800x"@', '@raw:{"a":1,"a":2}@', '@raw:{"__proto__":{"stream":true}}@',
    [], [[]], [null], [1, 'a', {}], {}, { type: 'object' }, { a: { b: { c: [] } } }, { type: 'json_schema', json_schema: { name: 'n', schema: { $ref: '#' } } }, ['END', '', 5],
    '(a|b)*', '(?=x)', '[z-a]', 'root ::= root', 'root ::= "a"', 'start: "a"', { regex: '(' }, { choice: ['a'] }, { 5: 1, x: 2 }, { 99999999: 1 }),
  anyText(20),
  // Lone surrogates, too.
  fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 8 }).map((units) => String.fromCharCode(...units)),
  fc.jsonValue({ maxDepth: 3 }),
  fc.record({ count: fc.constantFrom(30, 300, 3_000), around: fc.constantFrom('[', '{') }).map(({ count, around }) => `@raw:${around === '[' ? `${'['.repeat(count)}${']'.repeat(count)}` : `${'{"a":'.repeat(count)}1${'}'.repeat(count)}`}@`),
  fc.constantFrom(1_000, 20_000).map((count) => 'é\u0301💥 '.repeat(count / 4)),
);

/** Used in place of edits, so that the valid value stays valid. */
export const unchanged = fc.constant<unknown>([]) as fc.Arbitrary<never[]>;

export const edits = (values: fc.Arbitrary<unknown> = strangeValues, maxLength = 3): fc.Arbitrary<Edit[]> => fc.array(fc.record<Edit>({
  steps: fc.array(fc.nat(20), { minLength: 1, maxLength: 5 }),
  how: fc.constantFrom('set', 'set', 'set', 'drop', 'repeat', 'rename', 'wrap'),
  value: values,
}), { maxLength });

type Holder = Record<string | number, unknown>;

const put = (holder: Holder, key: string | number, value: unknown): void =>
  void Object.defineProperty(holder, key, { value, enumerable: true, configurable: true, writable: true });

/** A copy with the edits applied. The value is plain JSON. */
export function edited(value: unknown, all: readonly Edit[]): unknown {
  const top: Holder = { top: structuredClone(value) };
  for (const { steps, how, value: given } of all) {
    let holder: Holder = top;
    let key: string | number = 'top';
    for (const step of steps) {
      const inner: unknown = holder[key];
      if (typeof inner !== 'object' || inner === null) break;
      const keys: string[] = Object.keys(inner);
      if (keys.length === 0) break;
      holder = inner as Holder;
      key = keys[step % keys.length]!;
    }
    const own = holder[key];
    switch (how) {
      case 'set': put(holder, key, structuredClone(given)); break;
      case 'wrap': put(holder, key, [own]); break;
      case 'drop': if (Array.isArray(holder)) holder.splice(Number(key), 1); else delete holder[key]; break;
      case 'repeat': if (Array.isArray(holder)) holder.push(structuredClone(own)); else put(holder, `${key}x`, structuredClone(own)); break;
      case 'rename': {
        if (Array.isArray(holder)) break;
        delete holder[key];
        put(holder, typeof given === 'string' ? given : '__proto__', own);
        break;
      }
    }
  }
  return top['top'];
}

/** JSON of a value; `@raw:…@` stands for text that JSON.stringify cannot write. */
export function jsonOf(value: unknown): string {
  return (JSON.stringify(value) ?? 'undefined').replace(/"@raw:((?:[^"\\]|\\.)*)@"/g, (_, raw: string) => JSON.parse(`"${raw}"`) as string);
}

export interface TextEdit {
  /** The place in the text, in thousandths. */
  at: number;
  removed: number;
  put: string;
}

const sharp = ['"', '\\', '{', '}', '[', ']', ',', ':', '\n', '\r\n', '\u0000', '\ufeff', '\ud800', '//', '# ', '=', '-', '1e999', 'null', '"\\u0000"', '\u2028', '"__proto__":', '\t', '../', '%'];

export const textEdits = (words: readonly string[] = sharp, maxLength = 3): fc.Arbitrary<TextEdit[]> => fc.array(fc.record<TextEdit>({
  at: fc.nat(1_000), removed: fc.oneof({ weight: 4, arbitrary: fc.nat(3) }, fc.nat(100_000)), put: fc.oneof(fc.constantFrom('', ...words), anyText(8)),
}), { maxLength });

export function editedText(text: string, all: readonly TextEdit[]): string {
  return all.reduce((now, { at, removed, put: added }) => {
    const from = Math.floor(now.length * at / 1_000);
    return now.slice(0, from) + added + now.slice(from + removed);
  }, text);
}

export interface ByteEdit {
  at: number;
  removed: number;
  put: Uint8Array;
}

/** Counts and lengths as in files, at their limits. */
const edgeBytes = [
  [0],
  [0xff],
  [0x7f, 0xff, 0xff, 0xff],
  [0xff, 0xff, 0xff, 0xff],
  [0, 0, 0, 0],
  [1, 0, 0, 0],
  [0, 0, 0, 0x80],
  Array(8).fill(0xff),
  [...Array(7).fill(0xff), 0x7f],
  [0, 0, 0, 0, 0, 0, 0, 0x80],
  Array(8).fill(0),
] as number[][];

/**
 * `width`: the bytes in which edits fall. Most edits overwrite, so that the rest keeps its place.
 */
export const byteEdits = (width: number, maxLength = 4): fc.Arbitrary<ByteEdit[]> =>
  fc.array(
    fc
      .tuple(
        fc.nat(width),
        fc.oneof(
          { weight: 3, arbitrary: fc.constantFrom(...edgeBytes).map((bytes) => Uint8Array.from(bytes)) },
          { weight: 3, arbitrary: fc.uint8Array({ minLength: 1, maxLength: 8 }) },
        ),
        fc.constantFrom(0, 0, 0, 0, 1, 8, 64),
        fc.integer({ min: 0, max: 9 }),
      )
      .map(([at, bytes, more, over]): ByteEdit => ({ at, removed: over < 8 ? bytes.length : more, put: bytes })),
    { maxLength },
  );

export function editedBytes(bytes: Uint8Array, all: readonly ByteEdit[]): Buffer {
  return all.reduce<Buffer>((now, { at, removed, put: added }) => {
    const from = at % (now.length + 1);
    if (removed === added.length && from + removed <= now.length) {
      now.set(added, from);
      return now;
    }
    return Buffer.concat([now.subarray(0, from), added, now.subarray(from + removed)]);
  }, Buffer.from(bytes));
}
