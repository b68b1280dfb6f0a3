// Schemas that once made a converter hang, take all memory or crash, grouped by effect.
const times = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));
const byName = (count: number, make: (i: number) => unknown): Record<string, unknown> => Object.fromEntries(times(count, (i) => [`p${i}`, make(i)]));
const nested = (depth: number, wrap: (inner: unknown) => unknown): unknown => times(depth, () => wrap).reduce<unknown>((inner, make) => make(inner), { type: 'null' });
const object = (properties: Record<string, unknown>, more: object = {}) => ({ type: 'object', properties, ...more });

/** A cube of schemas, as long on each side, of which each refers to the next. */
function chained(side: number): unknown[][][] {
  const all = times(side ** 3, (i) => {
    const next = i + 1;
    return { $ref: next === side ** 3 ? '#/end' : `#/d/${Math.floor(next / side ** 2)}/${Math.floor(next / side) % side}/${next % side}` };
  });
  return times(side, (x) => times(side, (y) => times(side, (z) => all[(x * side + y) * side + z])));
}

/** Values are schemas, or their texts. */
export const hostileSchemas: Record<string, unknown> = {
  'a length that is less than it is': object({ a: { type: 'string', minLength: 5, maxLength: 3 } }),
  'int64 bounds': '{"type":"object","properties":{"a":{"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807}}}',
  'int64 bounds as JavaScript writes them': object({ a: { type: 'integer', minimum: -(2 ** 63), maximum: 2 ** 63 } }),
  'bounds beyond all': object({ a: { type: 'integer', minimum: -1e308, maximum: 1e308 }, b: { type: 'number', minimum: 1e-300, maximum: 1e308 } }),
  'a DAG of references': object({ a: { $ref: '#/$defs/d0' } }, { $defs: Object.fromEntries(times(60, (i) => [`d${i}`, i === 59 ? { type: 'string' } : { anyOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] }])) }),
  'a DAG of references with allOf': object({ a: { $ref: '#/$defs/d0' } }, { $defs: Object.fromEntries(times(60, (i) => [`d${i}`, i === 59 ? { type: 'object' } : { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] }])) }),
  'a chain of references': object({ a: { $ref: '#/$defs/d0' } }, { $defs: Object.fromEntries(times(900, (i) => [`d${i}`, i === 899 ? { type: 'null' } : { type: 'array', items: { $ref: `#/$defs/d${i + 1}` } }])) }),
  'too many references': object(byName(3000, (i) => ({ $ref: `#/$defs/d${i}` })), { $defs: Object.fromEntries(times(3000, (i) => [`d${i}`, { type: 'null' }])) }),
  'references in a circle': object({ a: { $ref: '#/$defs/a' } }, { $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }),
  'allOf in a circle': object({ a: { $ref: '#/$defs/a' } }, { $defs: { a: { allOf: [{ $ref: '#/$defs/b' }] }, b: { allOf: [{ $ref: '#/$defs/a' }] } } }),
  'allOf of references in a circle': { allOf: [{ $ref: '#/$defs/a' }], $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } },
  'references in a row': { $ref: '#/d/0/0/0', minLength: 1, d: chained(32), end: { type: 'string' } },
  'copies of a large schema': { allOf: times(1_500, () => ({ $ref: '#/$defs/b' })), $defs: { b: { $ref: '#/$defs/c', minLength: 1, description: 'x'.repeat(1_000_000) }, c: { type: 'string' } } },
  'small parts beside a large one': { allOf: [{ properties: byName(5_000, () => ({ enum: times(15, (i) => i) })) }, ...times(20_000, () => ({ properties: {} }))] },
  'items of many parts': { allOf: times(30_000, (i) => ({ items: { minLength: i } })) },
  'allOf that doubles at each level': object({ a: { $ref: '#/$defs/d0' } }, { $defs: Object.fromEntries(times(40, (i) => [`d${i}`, i === 39 ? object({ x: { type: 'null' } }) : object({ x: { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] } })])) }),
  'allOf in a circle through a property': { $ref: '#/d/F', d: { F: { properties: { c: { allOf: [{ $ref: '#/d/F' }] } } } } },
  'allOf with itself': { allOf: [{ $ref: '#' }, { type: 'object' }] },
  'allOf that grows': { $ref: '#/$defs/a', $defs: { a: object({ x: { allOf: [{ $ref: '#/$defs/a' }, object({ y: { type: 'null' } })] } }) } },
  'anyOf beside anyOf': nested(20, (inner) => ({ anyOf: [{ type: 'string' }, inner], minLength: 1, allOf: [{ anyOf: [{ maxLength: 3 }, { maxLength: 4 }] }] })),
  '20,000 optional properties': object(byName(20_000, () => ({ type: 'null' }))),
  '3,000 optional properties': object(byName(3000, () => ({ type: 'null' }))),
  '20,000 required properties': object(byName(20_000, () => ({ type: 'null' })), { required: times(20_000, (i) => `p${i}`) }),
  '200,000 values': object({ a: { enum: times(200_000, (i) => `v${i}`) } }),
  'many ways to many values': object({ p: { anyOf: times(345, () => ({ $ref: '#/$defs/D' })) } }, { $defs: { D: { anyOf: times(345, () => ({ $ref: '#/$defs/E' })) }, E: { enum: times(10_000, (i) => i) } } }),
  '5,000 alternatives': object({ a: { anyOf: times(5000, (i) => ({ const: i })) } }),
  'one of 5,000': object({ a: { oneOf: times(5000, (i) => object({ k: { const: i } }, { required: ['k'] })) } }),
  'one of 600 large values': { oneOf: times(600, (i) => ({ const: [times(4_000, () => []), i] })) },
  'a long name': object({ ['n'.repeat(49_000)]: { type: 'null' } }),
  'a long name of marks': object({ ['#'.repeat(49_000)]: { type: 'null' } }, { additionalProperties: true }),
  'long names inside each other': nested(60, (inner) => object({ ['é'.repeat(400)]: inner })),
  'a long name that is required': { type: 'object', required: ['#'.repeat(49_000)] },
  'a long reference': object({ a: { $ref: `#/${'~'.repeat(200_000)}` } }),
  'a long reference that leads somewhere': object({ a: { $ref: `#/$defs/${'#'.repeat(200_000)}` } }, { $defs: { ['#'.repeat(200_000)]: object({ b: { type: 'null' } }) } }),
  'deep objects': nested(90, (inner) => object({ a: inner })),
  'types at each level': nested(60, (inner) => ({ type: ['object', 'object', 'object'], properties: { a: inner } })),
  'a long pattern': object({ a: { type: 'string', pattern: `^${'(a|b)*'.repeat(20_000)}$` } }),
  'a deep pattern': object({ a: { type: 'string', pattern: `^${'('.repeat(5000)}a${')'.repeat(5000)}$` } }),
  'repeats of repeats': object({ a: { type: 'string', pattern: '^((((a{1000}){1000}){1000}){1000}){1000}$' } }),
  'large counts': object({ a: { type: 'string', minLength: 999_999, maxLength: 1_000_000 }, b: { type: 'array', items: {}, minItems: 999_999 }, c: { type: 'string', maxLength: 1e300 } }),
  'counts that are none': object({ a: { type: 'string', maxLength: -1 } }),
  'a list of multiples': object(byName(900, () => ({ type: 'integer', multipleOf: 997 }))),
  'long values': object({ a: { const: 'x'.repeat(5_000_000) } }),
  '5,000 names to tell others apart from': object(Object.fromEntries(times(2000, (i) => [`${'n'.repeat(i % 900)}${i}`, { type: 'null' }])), { additionalProperties: { type: 'null' } }),
};
