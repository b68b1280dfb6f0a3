// Left recursion: rules that begin with themselves, which GBNF cannot handle. Pure. Called by lark.
import { choice, nothing, repeat, sequence, type Tree } from './tree.js';

/**
 * Turns `a: a "x" | "y"` into `a: "y" "x"*`. Undefined if every alternative of the rule begins with
 * itself.
 */
export function withoutLeft(tree: Tree, self: number): Tree | undefined {
  const rests: Tree[] = [];
  const others: Tree[] = [];
  for (const way of tree.kind === 'choice' ? tree.ways : [tree]) {
    const [first, ...rest] = way.kind === 'sequence' ? way.items : [way];
    if (first?.kind === 'rule' && first.rule === self) rests.push(sequence(rest));
    else others.push(way);
  }
  if (rests.length === 0) return tree;
  // "a: a" alone adds nothing.
  const more = rests.filter((rest) => rest.kind !== 'sequence' || rest.items.length > 0);
  if (others.length === 0) return undefined;
  return sequence([choice(others), more.length === 0 ? nothing : repeat(choice(more), 0, Infinity)]);
}

/** A rule that begins with itself through other rules; undefined if there is none. */
export function beginsWithItself(rules: readonly Tree[], spend: () => void): number | undefined {
  const empty = mayBeEmpty(rules, spend);
  const next = rules.map((tree) => {
    const found = new Set<number>();
    beginnings(tree, empty, found, spend);
    return [...found];
  });
  /** 1 while a rule is on the path, 2 once it is done. */
  const state = new Uint8Array(rules.length);
  for (let start = 0; start < rules.length; start++) {
    if (state[start] !== 0) continue;
    const path: { rule: number; at: number }[] = [{ rule: start, at: 0 }];
    state[start] = 1;
    while (path.length > 0) {
      spend();
      const top = path.at(-1)!;
      const to = next[top.rule]![top.at++];
      if (to === undefined) {
        state[top.rule] = 2;
        path.pop();
      } else if (state[to] === 1) return to;
      else if (state[to] === 0) {
        state[to] = 1;
        path.push({ rule: to, at: 0 });
      }
    }
  }
  return undefined;
}

function mayBeEmpty(rules: readonly Tree[], spend: () => void): boolean[] {
  const empty = rules.map(() => false);
  for (let changed = true; changed;) {
    changed = false;
    rules.forEach((tree, rule) => {
      if (empty[rule] || !isEmpty(tree, empty, spend)) return;
      empty[rule] = changed = true;
    });
  }
  return empty;
}

function isEmpty(tree: Tree, empty: readonly boolean[], spend: () => void): boolean {
  spend();
  switch (tree.kind) {
    case 'characters': return false;
    case 'text': return tree.text === '';
    case 'sequence': return tree.items.every((item) => isEmpty(item, empty, spend));
    case 'choice': return tree.ways.some((way) => isEmpty(way, empty, spend));
    case 'repeat': return tree.min === 0 || isEmpty(tree.item, empty, spend);
    case 'rule': return empty[tree.rule]!;
    case 'edge': return true;
  }
}

/** Collects the rules that a match of this tree may begin with. */
function beginnings(tree: Tree, empty: readonly boolean[], found: Set<number>, spend: () => void): void {
  spend();
  switch (tree.kind) {
    case 'rule':
      found.add(tree.rule);
      return;
    case 'choice':
      for (const way of tree.ways) beginnings(way, empty, found, spend);
      return;
    case 'repeat':
      if (tree.max > 0) beginnings(tree.item, empty, found, spend);
      return;
    case 'sequence':
      for (const item of tree.items) {
        beginnings(item, empty, found, spend);
        if (!isEmpty(item, empty, spend)) return;
      }
      return;
    default:
  }
}
