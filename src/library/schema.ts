// Schemas that programs may pass, the TypeScript types of answers to them, and parsing answers.
// Schemas of other libraries are read through the Standard Schema interface, so none of those
// libraries is a dependency.
import { RecuaError } from '../errors.js';

/**
 * A JSON schema, e.g. `{ type: 'object', properties: { age: { type: 'integer' } }, required:
 * ['age'] }`.
 */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/**
 * A schema of zod (4.2 or newer), ArkType, Valibot (with `toStandardJsonSchema`) or any other
 * library that implements Standard Schema and can export JSON schema. The library also validates
 * the answers, so defaults and transformations apply.
 */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
  };
}

/** The result of validating a value with a Standard Schema. */
export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string; readonly path?: readonly unknown[] | undefined }[] };

/** A schema: JSON schema, or a schema of another library. */
export type Schema = JsonSchema | StandardSchema;

/**
 * The type of the values that a schema describes: the output type of a library's schema, or the
 * type that a JSON schema's keywords describe.
 */
export type FromSchema<S> =
  S extends undefined ? undefined
    : S extends StandardSchema<infer Output> ? Output
    : FromJsonSchema<S>;

/**
 * The type that a JSON schema's keywords describe; `unknown` if the compiler does not know the
 * keywords.
 */
export type FromJsonSchema<S> =
  S extends { readonly const: infer Value } ? Value
    : S extends { readonly enum: readonly (infer Value)[] } ? Value
    : S extends { readonly anyOf: readonly (infer One)[] } ? FromJsonSchema<One>
    : S extends { readonly oneOf: readonly (infer One)[] } ? FromJsonSchema<One>
    : S extends { readonly type: infer Type } ? OfType<Type extends readonly (infer One)[] ? One : Type, S>
    : unknown;

/** Distributes over a union of types. */
type OfType<Type, S> =
  Type extends 'string' ? string
    : Type extends 'number' | 'integer' ? number
    : Type extends 'boolean' ? boolean
    : Type extends 'null' ? null
    : Type extends 'array' ? (S extends { readonly items: infer Item } ? FromJsonSchema<Item>[] : unknown[])
    : Type extends 'object' ? ObjectOf<S>
    : unknown;

type ObjectOf<S> = S extends { readonly properties: infer Properties }
  ? Flat<
    & { -readonly [Name in keyof Properties as Name extends RequiredOf<S> ? Name : never]: FromJsonSchema<Properties[Name]> }
    & { -readonly [Name in keyof Properties as Name extends RequiredOf<S> ? never : Name]?: FromJsonSchema<Properties[Name]> }
  >
  : Record<string, unknown>;

type RequiredOf<S> = S extends { readonly required: readonly (infer Name)[] } ? Name : never;

/** Merges an intersection into one object type, which editors show better. */
type Flat<T> = { [Name in keyof T]: T[Name] };

/**
 * How libraries convert their schemas to JSON schema: Standard JSON Schema, or their own method.
 */
interface Convertible {
  '~standard'?: { jsonSchema?: { input?: (options: { target: string }) => unknown } };
  toJSONSchema?: () => unknown;
  toJsonSchema?: () => unknown;
}

/**
 * The JSON schema of a schema.
 * @throws RecuaError `invalid_schema` if it is not a schema, or its library cannot export JSON
 *   schema.
 */
export function jsonSchemaOf(schema: Schema, param: string): object {
  const library = schema as Convertible;
  const convert = library['~standard']?.jsonSchema?.input;
  let json: unknown = schema;
  try {
    if (convert) json = convert.call(library['~standard']?.jsonSchema, { target: 'draft-2020-12' });
    else if (typeof library.toJSONSchema === 'function') json = library.toJSONSchema();
    else if (typeof library.toJsonSchema === 'function') json = library.toJsonSchema();
    else if (isStandard(schema)) {
      throw new RecuaError('invalid_schema',
        `The schema for ${param} comes from a version of ${String(schema['~standard'].vendor)} that gives no JSON schema by itself; use a newer version, or pass the JSON schema (z.toJSONSchema(schema) with zod).`, { param });
    }
  } catch (thrown) {
    if (thrown instanceof RecuaError) throw thrown;
    throw new RecuaError('invalid_schema', `The schema for ${param} has no JSON schema: ${(thrown as Error).message}`, { param, cause: thrown });
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    throw new RecuaError('invalid_schema', `Expected a schema for ${param}: a JSON schema object, or a schema of a library such as zod.`, { param });
  }
  return json;
}

/**
 * Validates and transforms a value with the schema's own library.
 * @throws RecuaError `answer_invalid` with the issues found.
 */
export async function checkBySchema(schema: Schema | undefined, value: unknown): Promise<unknown> {
  if (!schema || !isStandard(schema)) return value;
  const result = await schema['~standard'].validate(value);
  if (result.issues === undefined) return result.value;
  const issues = result.issues.map(({ message, path }) => (path?.length ? `${path.map(segment).join('.')}: ${message}` : message));
  throw new RecuaError('answer_invalid', `The schema refuses the answer: ${issues.join('; ')}`);
}

function segment(part: unknown): string {
  return String(typeof part === 'object' && part !== null && 'key' in part ? part.key : part);
}

function isStandard(schema: Schema): schema is StandardSchema {
  const standard = (schema as { '~standard'?: unknown })['~standard'];
  return typeof standard === 'object' && standard !== null;
}
