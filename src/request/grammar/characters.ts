// Sets of characters as ranges of code points. Pure.

/** Inclusive ranges, in order, not touching each other. */
export type Characters = readonly (readonly [number, number])[];

export const lastCharacter = 0x10ffff;

/** Sorted and joined. */
export function union(...sets: readonly Characters[]): Characters {
  const sorted = sets.flat().sort(([a], [b]) => a - b);
  const joined: [number, number][] = [];
  for (const [from, to] of sorted) {
    const last = joined.at(-1);
    if (last && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  return joined;
}

export function without(set: Characters): Characters {
  const rest: [number, number][] = [];
  let next = 0;
  for (const [from, to] of union(set)) {
    if (from > next) rest.push([next, from - 1]);
    next = to + 1;
  }
  if (next <= lastCharacter) rest.push([next, lastCharacter]);
  return rest;
}

/** The characters in both sets. */
export function common(one: Characters, other: Characters): Characters {
  const both: [number, number][] = [];
  let [i, j] = [0, 0];
  while (i < one.length && j < other.length) {
    const [a, b] = one[i]!;
    const [c, d] = other[j]!;
    if (Math.max(a, c) <= Math.min(b, d)) both.push([Math.max(a, c), Math.min(b, d)]);
    if (b < d) i++;
    else j++;
  }
  return both;
}

export function single(character: number): Characters {
  return [[character, character]];
}

export const digits: Characters = [[0x30, 0x39]];
export const wordCharacters: Characters = [[0x30, 0x39], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]];
export const spaces: Characters = [
  [9, 13], [0x20, 0x20], [0xa0, 0xa0], [0x1680, 0x1680], [0x2000, 0x200a], [0x2028, 0x2029],
  [0x202f, 0x202f], [0x205f, 0x205f], [0x3000, 0x3000], [0xfeff, 0xfeff],
];
export const lineFeed: Characters = [[0x0a, 0x0a]];
export const everything: Characters = [[0, lastCharacter]];

/** POSIX character classes, for ASCII. */
export const namedClasses: Readonly<Record<string, Characters>> = {
  alnum: [[0x30, 0x39], [0x41, 0x5a], [0x61, 0x7a]],
  alpha: [[0x41, 0x5a], [0x61, 0x7a]],
  ascii: [[0, 0x7f]],
  blank: [[9, 9], [0x20, 0x20]],
  cntrl: [[0, 0x1f], [0x7f, 0x7f]],
  digit: digits,
  graph: [[0x21, 0x7e]],
  lower: [[0x61, 0x7a]],
  print: [[0x20, 0x7e]],
  punct: [[0x21, 0x2f], [0x3a, 0x40], [0x5b, 0x60], [0x7b, 0x7e]],
  space: [[9, 13], [0x20, 0x20]],
  upper: [[0x41, 0x5a]],
  word: wordCharacters,
  xdigit: [[0x30, 0x39], [0x41, 0x46], [0x61, 0x66]],
};

/** Size of a set up to which `anyCase` looks at every character. */
const mostCased = 2_000;

/** Adds the other case of each letter of the set; for large sets, of its ASCII letters only. */
export function anyCase(set: Characters, spend: (steps: number) => void): Characters {
  const more: [number, number][] = [];
  const size = set.reduce((sum, [from, to]) => sum + to - from + 1, 0);
  const within = size <= mostCased ? set : common(set, [[0, 0x7f]]);
  spend(Math.min(size, mostCased));
  for (const [from, to] of within) {
    for (let character = from; character <= to; character++) {
      const text = String.fromCodePoint(character);
      for (const other of [text.toLowerCase(), text.toUpperCase()]) {
        const [only, ...rest] = other;
        if (only !== undefined && rest.length === 0) more.push([only.codePointAt(0)!, only.codePointAt(0)!]);
      }
    }
  }
  return union(set, more);
}

const known = new Map<string, Characters>();
/** More than there are names of properties: finding one again and again would stop all others. */
const mostKnown = 4_096;
const plane = 0x10000;

/**
 * The characters with a Unicode property, by JavaScript's name for it; undefined if there is none.
 * The first use of a property scans all of Unicode, which takes some milliseconds.
 */
export function property(name: string): Characters | undefined {
  const before = known.get(name);
  if (before) return before;
  let runs: RegExp;
  try {
    runs = new RegExp(`\\p{${name}}+`, 'gu');
  } catch {
    return undefined;
  }
  const ranges: [number, number][] = [];
  for (const [from, text] of (planes ??= allPlanes())) {
    // After the first plane each character takes two UTF-16 units.
    const width = from < plane ? 1 : 2;
    for (const { 0: run, index } of text.matchAll(runs)) {
      ranges.push([from + index / width, from + (index + run.length) / width - 1]);
    }
  }
  if (known.size >= mostKnown) known.delete(known.keys().next().value!);
  const found = union(ranges);
  known.set(name, found);
  return found;
}

/** All characters by plane, each with its first code point. Built for the first property. */
let planes: readonly (readonly [from: number, text: string])[] | undefined;

function allPlanes(): [number, string][] {
  const starts = Array.from({ length: lastCharacter / plane }, (_, index) => (index + 1) * plane);
  return [
    [0, textOf(0, 0xd7ff)],
    [0xe000, textOf(0xe000, 0xffff)],
    ...starts.map((from): [number, string] => [from, textOf(from, from + plane - 1)]),
  ];
}

function textOf(from: number, to: number): string {
  const parts: string[] = [];
  for (let at = from; at <= to; at += 4_096) {
    const end = Math.min(at + 4_095, to);
    parts.push(String.fromCodePoint(...Array.from({ length: end - at + 1 }, (_, i) => at + i)));
  }
  return parts.join('');
}
