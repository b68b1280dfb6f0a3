// Seeded noise for requests: values that no client should send, and texts that are not JSON. The
// same in every run. Used by the fuzz tests.
export const seed = Number(process.env['RECUA_FUZZ_SEED'] ?? 20_261_121);

/** mulberry32. */
function makeRandom(state: number): () => number {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export const random = makeRandom(seed);
export const below = (limit: number): number => Math.floor(random() * limit);
export const pick = <Item>(items: readonly Item[]): Item => items[below(items.length)];

/** Stands for JSON that JSON.stringify cannot write. */
const literals = ['1e309', '-1e309', '1e-320', '99999999999999999999999', '-0', '0.1e1', '"\\ud800"', '"\\udfff\\ud800x"'];
export const strange = (): unknown =>
  pick<() => unknown>([
    () => null,
    () => true,
    () => false,
    () => 0,
    () => -1,
    () => 1.5,
    () => 2 ** 31,
    () => -(2 ** 31),
    () => 2 ** 53,
    () => -(2 ** 63),
    () => 1e300,
    () => '',
    () => 'x',
    () => '\u0000',
    () => '💥'.repeat(50),
    () => 'auto',
    () => 'required',
    () => [],
    () => [[]],
    () => [null],
    () => [1, 'a', {}],
    () => {},
    () => ({}),
    () => ({ type: 'object' }),
    () => ({ a: { b: { c: [] } } }),
    () => ({ type: 'json_schema', json_schema: { schema: { type: 'nonsense', $ref: '#/nowhere' } } }),
    () => ({ type: 'function', function: { name: 'f', parameters: { type: 5 } } }),
    () => `@${pick(literals)}@`,
    () => ['END', '', 5],
    () => '(a|b)*',
    () => '(?=x)',
    () => '[z-a]',
    () => 'start: "a"',
    () => ({ regex: '(' }),
    () => ({ choice: ['a'] }),
    () => [
      {
        type: 'custom',
        custom: { name: 'c', format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: x+\nx: "y" | x' } } },
      },
    ],
    () => ({ type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [{ type: 'function', name: 'f' }] } }),
    () => ({ 5: 1, x: 2 }),
    () => ({ 99999999: 1 }),
  ])();

export function set(object: object, name: string, value: unknown): void {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}

/** JSON of the body, sometimes with something broken. */
export function spoiled(body: unknown): string {
  const text = JSON.stringify(body).replace(/"@((?:[^"\\]|\\.)*(?:\\"(?:[^"\\]|\\.)*\\")?)@"/g, (_, literal: string) => literal.replaceAll('\\"', '"').replaceAll('\\\\', '\\'));
  const kind = random();
  if (kind < 0.05) return text.slice(0, below(text.length));
  if (kind < 0.1) {
    const at = below(text.length);
    return text.slice(0, at) + String.fromCharCode(below(256)) + text.slice(at + 1);
  }
  if (kind < 0.12) return pick(['', '{}', '[]', 'null', '0', '"', '{"messages":[{}]}', '{"messages":{"0":{}}}', '['.repeat(10_000), '{"a":'.repeat(1_000), 'NaN', '{"input":NaN}']);
  return text;
}

/** A copy in which some values, at any depth, are changed, removed or duplicated. */
export function mutated(body: object): object {
  const copy = structuredClone(body);
  for (let times = 1 + below(3); times > 0; times--) {
    let at: object = copy;
    for (;;) {
      const keys = Object.keys(at);
      const key = pick(keys);
      const inner: unknown = key === undefined ? undefined : (at as Record<string, unknown>)[key];
      if (typeof inner === 'object' && inner !== null && random() < 0.6) {
        at = inner;
        continue;
      }
      if (key === undefined) break;
      const kind = random();
      if (kind < 0.7) set(at, key, strange());
      else if (kind < 0.9) delete (at as Record<string, unknown>)[key];
      else if (Array.isArray(at)) at.push(inner);
      else set(at, `${key}x`, inner);
      break;
    }
  }
  return copy;
}
