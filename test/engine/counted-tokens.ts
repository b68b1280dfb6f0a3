// Tokens that count how often one of them is looked at, for tests of work that must not grow.

/** `reads.count` grows with each token that is read. */
export function counted(tokens: Int32Array, reads: { count: number }): Int32Array {
  return new Proxy(tokens, {
    get(target, name) {
      if (typeof name === 'string' && /^\d+$/.test(name)) reads.count++;
      const value = Reflect.get(target, name) as unknown;
      return typeof value === 'function' ? value.bind(target) as unknown : value;
    },
  });
}
