// Bodies drawn from the schemas of the document: a few of the ways to fit them.
import fc from 'fast-check';
import type { Schema } from '#recua/server/reference/schema.js';
import { resolve, type Json } from './schemas.js';

/** Fields that make answers long or many. */
const small: Record<string, number> = {
  max_tokens: 3,
  max_completion_tokens: 3,
  n_predict: 3,
  num_predict: 3,
  max_output_tokens: 3,
  n: 2,
  n_cmpl: 2,
  best_of: 2,
};

/** Bodies of a schema named by `allBodies`. */
export function arbitrary(schema: Schema, key = ''): fc.Arbitrary<unknown> {
  const own = resolve(schema);
  if (key === 'model') return fc.constantFrom('default', 'nobody');
  // Any JSON fits a schema or a value; a few cases are enough.
  if (Array.isArray(own['anyOf'])) return fc.oneof(...(own['anyOf'] as Schema[]).map((one) => arbitrary(one)));
  if ('const' in own) return fc.constant(own['const']);
  if (Array.isArray(own['enum'])) return fc.constantFrom(...own['enum'] as unknown[]);
  return fc.oneof(...([own['type'] ?? 'any'].flat() as string[]).map((type) => typed(type, own, key)));
}

function typed(type: string, own: Schema, key: string): fc.Arbitrary<unknown> {
  const { minimum = -1_000, maximum = 1_000, minLength = 0, maxLength = 12, minItems = 0, maxItems = 3 } = own as Record<string, number>;
  switch (type) {
    case 'integer': return fc.integer({ min: key in small ? 1 : minimum, max: Math.min(maximum, small[key] ?? maximum) });
    case 'number': return fc.double({ min: minimum, max: maximum, noNaN: true, noDefaultInfinity: true });
    case 'string': return fc.string({ minLength, maxLength: Math.min(maxLength, 12) });
    case 'boolean': return fc.boolean();
    case 'null': return fc.constant(null);
    case 'array': return fc.array(own['items'] ? arbitrary(own['items'] as Schema) : fc.constant('a'), { minLength: minItems, maxLength: Math.max(minItems, Math.min(maxItems, 3)) });
    case 'object': return own['properties'] ? record(own) : fc.dictionary(fc.string({ maxLength: 5 }), fc.oneof(fc.integer({ min: 0, max: 9 }), fc.string({ maxLength: 3 })), { maxKeys: 2 });
    default: return fc.jsonValue({ maxDepth: 2 });
  }
}

/** A few of the fields that may be absent. */
function record(own: Schema): fc.Arbitrary<Json> {
  const { properties, required = [] } = own as { properties: Record<string, Schema>; required?: string[] };
  const optional = Object.keys(properties).filter((name) => !required.includes(name));
  return fc.subarray(optional, { maxLength: Math.min(optional.length, 3) }).chain((some) => (
    fc.record(Object.fromEntries([...required, ...some].map((name) => [name, arbitrary(properties[name], name)])))
  ));
}
