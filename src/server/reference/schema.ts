// Short constructors of JSON schemas, for replies and for the fields that a body's reader takes
// with `get`. Pure. Used by the dialects' replies and words.

export interface Schema {
  [keyword: string]: unknown;
  $ref?: string;
  description?: string;
  /** The schema that our own `$ref` refers to; never serialized. */
  [definition]?: Schema;
}

export const definition = Symbol('definition');

export const text: Schema = { type: 'string' };
export const integer: Schema = { type: 'integer' };
export const number: Schema = { type: 'number' };
export const boolean: Schema = { type: 'boolean' };
export const nothing: Schema = { type: 'null' };
/** Any JSON. */
export const anything: Schema = {};

export const list = (items: Schema, more: Schema = {}): Schema => ({ type: 'array', items, ...more });
export const words = (...all: readonly string[]): Schema => ({ type: 'string', enum: all });
export const mapOf = (values: Schema): Schema => ({ type: 'object', additionalProperties: values });
export const oneOf = (...all: readonly Schema[]): Schema => ({ anyOf: all });
export const told = (schema: Schema, description: string): Schema => ({ ...schema, description });

export function nullable(schema: Schema): Schema {
  const { type, enum: values } = schema;
  if (type === 'null') return schema;
  if (typeof type !== 'string') return { anyOf: [schema, nothing] };
  return { ...schema, type: [type, 'null'], ...(Array.isArray(values) ? { enum: [...values as unknown[], null] } : {}) };
}

/** A field whose name ends with a question mark is optional; a string value is a constant. */
export function object(fields: Readonly<Record<string, Schema | string>>): Schema {
  const entries = Object.entries(fields).map(([key, value]) => (
    { name: key.replace(/\?$/, ''), required: !key.endsWith('?'), schema: typeof value === 'string' ? { type: 'string', const: value } : value }
  ));
  const required = entries.filter((entry) => entry.required).map(({ name }) => name);
  return {
    type: 'object',
    properties: Object.fromEntries(entries.map(({ name, schema }) => [name, schema])),
    ...(required.length === 0 ? {} : { required }),
  };
}

/** Becomes a component of the document, written once. */
export function named(name: string, schema: Schema): Schema {
  return { $ref: `#/components/schemas/${name}`, [definition]: schema };
}
