// Walks a grammar character by character, like a model that must follow it: the state is a set of
// stacks of what may come next. For texts by a writer who avoids a good end.
import type { GbnfMatcher, Item } from './gbnf-matcher.js';

type Characters = Extract<Item, { kind: 'characters' }>;
type Repeat = Extract<Item, { kind: 'repeat' }>;
/** What is still to come, next first; undefined means nothing. */
interface Stack {
  item: Item;
  rest: Stack | undefined;
}

export class GbnfWalker {
  readonly #rules: GbnfMatcher['rules'];
  /** Merges equal stacks. */
  readonly #stacks = new Map<Item, Map<Stack | undefined, Stack>>();
  readonly #repeats = new Map<Item, Map<string, Repeat>>();
  /** Fewest characters of a rule. */
  readonly #shortest = new Map<string, number>();
  #state: Stack[] = [];
  /** The text may end here. */
  mayEnd = false;
  text = '';

  constructor({ rules }: GbnfMatcher) {
    this.#rules = rules;
    for (let changed = true; changed;) {
      changed = false;
      for (const [name, ways] of rules) {
        const length = this.#waysLength(ways);
        if (length >= (this.#shortest.get(name) ?? Infinity)) continue;
        this.#shortest.set(name, length);
        changed = true;
      }
    }
    this.#settle([this.#push({ kind: 'rule', name: 'root' }, undefined)]);
  }

  /** Returns false, without moving, if the grammar refuses the character. */
  take(character: string): boolean {
    const code = character.codePointAt(0)!;
    const after = this.#state.filter(({ item }) => isOf(item as Characters, code)).map(({ rest }) => rest);
    if (after.length === 0) return false;
    this.text += character;
    this.#settle(after);
    return true;
  }

  /** Continues to an end with as few characters as possible. */
  finish(): void {
    while (!this.mayEnd) {
      const best = this.#state.reduce((one, other) => (this.#stackLength(other) < this.#stackLength(one) ? other : one));
      const { ranges, negated } = best.item as Characters;
      const found = negated ? [...'abc 1,'].find((one) => isOf(best.item as Characters, one.codePointAt(0)!)) : String.fromCodePoint(ranges[0]![0]);
      if (found === undefined || !this.take(found)) throw new Error('no way on');
    }
  }

  #push(item: Item, rest: Stack | undefined): Stack {
    const known = getOr(this.#stacks, item, () => new Map<Stack | undefined, Stack>());
    return getOr(known, rest, () => ({ item, rest }));
  }

  #settle(open: (Stack | undefined)[]): void {
    const seen = new Set<Stack | undefined>();
    this.#state = [];
    while (open.length > 0) {
      const stack = open.pop();
      if (seen.has(stack)) continue;
      seen.add(stack);
      if (!stack) continue;
      const { item, rest } = stack;
      const each = (ways: Item[][]) =>
        ways.forEach((way) => open.push(way.reduceRight<Stack | undefined>((below, one) => this.#push(one, below), rest)));
      if (item.kind === 'characters') this.#state.push(stack);
      else if (item.kind === 'rule') each(this.#rules.get(item.name)!);
      else if (item.kind === 'group') each(item.ways);
      else {
        if (item.min === 0) open.push(rest);
        if (item.max > 0) open.push(this.#push(item.item, this.#push(this.#less(item), rest)));
      }
    }
    this.mayEnd = seen.has(undefined);
  }

  #less({ item, min, max }: Repeat): Repeat {
    const known = getOr(this.#repeats, item, () => new Map<string, Repeat>());
    const less: Repeat = { kind: 'repeat', item, min: Math.max(0, min - 1), max: max - 1 };
    return getOr(known, `${less.min} ${less.max}`, () => less);
  }

  #stackLength(stack: Stack | undefined): number {
    let length = 0;
    for (let at = stack; at; at = at.rest) length += this.#itemLength(at.item);
    return length;
  }

  #waysLength(ways: Item[][]): number {
    return Math.min(...ways.map((way) => way.reduce((sum, item) => sum + this.#itemLength(item), 0)));
  }

  #itemLength(item: Item): number {
    switch (item.kind) {
      case 'characters': return 1;
      case 'rule': return this.#shortest.get(item.name) ?? Infinity;
      case 'group': return this.#waysLength(item.ways);
      case 'repeat': return item.min === 0 ? 0 : item.min * this.#itemLength(item.item);
    }
  }
}

function isOf({ ranges, negated }: Characters, code: number): boolean {
  return ranges.some(([low, high]) => low <= code && code <= high) !== negated;
}

function getOr<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) map.set(key, value = make());
  return value;
}
