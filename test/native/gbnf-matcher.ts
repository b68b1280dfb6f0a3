// Whether a text is in the language of a grammar, computed differently than in the addon: it
// follows every possible end of a rule. For the parts of GBNF that JSON schemas use.
export type Item =
  | { kind: 'characters'; ranges: [number, number][]; negated: boolean }
  | { kind: 'rule'; name: string }
  | { kind: 'group'; ways: Item[][] }
  | { kind: 'repeat'; item: Item; min: number; max: number };

export class GbnfMatcher {
  readonly #rules = new Map<string, Item[][]>();
  #source: string[] = [];
  #at = 0;

  constructor(grammar: string) {
    for (const line of grammar.split('\n')) {
      const [, name, body] = /^([\w-]+) ::= ([^]*)$/.exec(line) ?? [];
      if (name === undefined) continue;
      this.#source = [...body!];
      this.#at = 0;
      this.#rules.set(name, this.#ways());
      if (this.#at < this.#source.length) throw new Error(`${line}: not understood from ${this.#at} on`);
    }
  }

  get rules(): ReadonlyMap<string, Item[][]> {
    return this.#rules;
  }

  matches(text: string): boolean {
    const characters = [...text].map((character) => character.codePointAt(0)!);
    const known = new Map<string, Set<number>>();
    const sequence = (items: Item[], from: Iterable<number>): Set<number> => {
      let at = new Set(from);
      for (const item of items) {
        at = union([...at].map((place) => ends(item, place)));
        if (at.size === 0) break;
      }
      return at;
    };
    const ways = (all: Item[][], from: number): Set<number> => union(all.map((way) => sequence(way, [from])));
    const ends = (item: Item, from: number): Set<number> => {
      switch (item.kind) {
        case 'characters': {
          const character = characters[from];
          const inside = character !== undefined && item.ranges.some(([low, high]) => low <= character && character <= high);
          return new Set(character !== undefined && inside !== item.negated ? [from + 1] : []);
        }
        case 'rule': {
          const key = `${item.name} ${from}`;
          const all = this.#rules.get(item.name);
          if (!all) throw new Error(`no rule ${item.name}`);
          if (!known.has(key)) known.set(key, ways(all, from));
          return known.get(key)!;
        }
        case 'group': return ways(item.ways, from);
        case 'repeat': {
          const found = new Set<number>(item.min === 0 ? [from] : []);
          let at = new Set([from]);
          for (let times = 1; times <= item.max && at.size > 0; times++) {
            const next = union([...at].map((place) => ends(item.item, place)));
            const before = found.size;
            if (times >= item.min) for (const place of next) found.add(place);
            if (times > item.min && found.size === before) break;
            at = next;
          }
          return found;
        }
      }
    };
    return ways(this.#rules.get('root')!, 0).has(characters.length);
  }

  /** A shortest text of the grammar. */
  shortest(): string {
    const known = new Map<string, string>();
    const shorter = (texts: (string | undefined)[]): string | undefined => (
      texts.reduce((best, text) => (text !== undefined && (best === undefined || text.length < best.length) ? text : best), undefined)
    );
    const sequence = (items: Item[]): string | undefined => {
      const texts = items.map(one);
      return texts.includes(undefined) ? undefined : texts.join('');
    };
    const one = (item: Item): string | undefined => {
      switch (item.kind) {
        case 'characters':
          if (!item.negated) return String.fromCodePoint(item.ranges[0]![0]);
          return [...'abc 1,'].find((text) => !item.ranges.some(([low, high]) => low <= text.codePointAt(0)! && text.codePointAt(0)! <= high));
        case 'rule': return known.get(item.name);
        case 'group': return shorter(item.ways.map(sequence));
        case 'repeat': return item.min === 0 ? '' : one(item.item)?.repeat(item.min);
      }
    };
    for (let changed = true; changed;) {
      changed = false;
      for (const [name, ways] of this.#rules) {
        const [before, now] = [known.get(name), shorter(ways.map(sequence))];
        if (now === undefined || (before !== undefined && before.length <= now.length)) continue;
        known.set(name, now);
        changed = true;
      }
    }
    return known.get('root')!;
  }

  /** Whether an expression with this literal may repeat. */
  repeats(literal: string): boolean {
    const holding = new Map<string, boolean>();
    const holds = (item: Item): boolean => {
      switch (item.kind) {
        case 'characters': return false;
        case 'repeat': return holds(item.item);
        case 'group': {
          const texts = item.ways.map((items) => items.map((one) => (one.kind === 'characters' && !one.negated ? String.fromCodePoint(one.ranges[0]![0]) : ' ')).join(''));
          return texts.some((text) => text.includes(literal)) || item.ways.flat().some(holds);
        }
        case 'rule': {
          const known = holding.get(item.name);
          if (known !== undefined) return known;
          holding.set(item.name, false);
          const found = (this.#rules.get(item.name) ?? []).flat().some(holds);
          holding.set(item.name, found);
          return found;
        }
      }
    };
    const within = (item: Item): boolean => {
      if (item.kind === 'group') return item.ways.flat().some(within);
      return item.kind === 'repeat' && ((item.max > 1 && holds(item.item)) || within(item.item));
    };
    return [...this.#rules.values()].flat(2).some(within);
  }

  #ways(): Item[][] {
    const all: Item[][] = [[]];
    for (;;) {
      this.#space();
      const character = this.#source[this.#at];
      if (character === undefined || character === ')') return all;
      if (character === '|') {
        this.#at++;
        all.push([]);
        continue;
      }
      all.at(-1)!.push(this.#repeated(this.#item()));
    }
  }

  #item(): Item {
    const character = this.#source[this.#at++]!;
    if (character === '"') {
      const items: Item[] = [];
      while (this.#source[this.#at] !== '"') {
        const one = this.#character();
        items.push({ kind: 'characters', ranges: [[one, one]], negated: false });
      }
      this.#at++;
      return { kind: 'group', ways: [items] };
    }
    if (character === '[') {
      const negated = this.#source[this.#at] === '^';
      if (negated) this.#at++;
      const ranges: [number, number][] = [];
      while (this.#source[this.#at] !== ']') {
        const from = this.#character();
        const range = this.#source[this.#at] === '-' && this.#source[this.#at + 1] !== ']';
        if (range) this.#at++;
        ranges.push([from, range ? this.#character() : from]);
      }
      this.#at++;
      return { kind: 'characters', ranges, negated };
    }
    if (character === '(') {
      const ways = this.#ways();
      this.#at++;
      return { kind: 'group', ways };
    }
    if (character === '.') return { kind: 'characters', ranges: [], negated: true };
    let name = character;
    while (/[\w-]/.test(this.#source[this.#at] ?? ' ')) name += this.#source[this.#at++]!;
    if (!/^[\w-]+$/.test(name)) throw new Error(`unexpected ${name}`);
    return { kind: 'rule', name };
  }

  #character(): number {
    const character = this.#source[this.#at++]!;
    if (character !== '\\') return character.codePointAt(0)!;
    const escape = this.#source[this.#at++]!;
    const digits = { x: 2, u: 4, U: 8 }[escape];
    if (digits === undefined) return { t: 9, r: 13, n: 10 }[escape] ?? escape.codePointAt(0)!;
    this.#at += digits;
    return parseInt(this.#source.slice(this.#at - digits, this.#at).join(''), 16);
  }

  #repeated(item: Item): Item {
    this.#space();
    const mark = this.#source[this.#at];
    if (mark === '*' || mark === '+' || mark === '?') {
      this.#at++;
      return { kind: 'repeat', item, min: mark === '+' ? 1 : 0, max: mark === '?' ? 1 : Infinity };
    }
    if (mark !== '{') return item;
    const end = this.#source.indexOf('}', this.#at);
    const [low, high] = this.#source.slice(this.#at + 1, end).join('').split(',');
    this.#at = end + 1;
    return { kind: 'repeat', item, min: Number(low), max: high === undefined ? Number(low) : high === '' ? Infinity : Number(high) };
  }

  #space(): void {
    while (this.#source[this.#at] === ' ') this.#at++;
  }
}

function union(sets: Set<number>[]): Set<number> {
  if (sets.length === 1) return sets[0]!;
  return new Set(sets.flatMap((set) => [...set]));
}
