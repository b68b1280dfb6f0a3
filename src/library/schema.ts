// What a program may give as a schema, the TypeScript type of the answers to it, and answers' text
// → objects. Schemas of other libraries come in by the Standard Schema interface, so that none of
// those libraries is needed here.
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
 * library that implements Standard Schema and gives JSON schema. Answers are checked by it, too, so
 * that defaults and transformations apply.
 */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
  };
}

/** What a Standard Schema says of a value. */
export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string; readonly path?: readonly unknown[] | undefined }[] };

/** What is taken as a schema: JSON schema, or a schema of another library. */
export type Schema = JsonSchema | StandardSchema;

/**
 * The type of what a schema describes: what a library's schema states, or what the keywords of a
 * JSON schema say.
 */
export type FromSchema<S> =
  S extends undefined ? undefined
    : S extends StandardSchema<infer Output> ? Output
      : FromJsonSchema<S>;

/**
 * The type that the keywords of a JSON schema describe; `unknown` where they are not known to the
 * compiler.
 */
export type FromJsonSchema<S> =
  S extends { readonly const: infer Value } ? Value
    : S extends { readonly enum: readonly (infer Value)[] } ? Value
      : S extends { readonly anyOf: readonly (infer One)[] } ? FromJsonSchema<One>
        : S extends { readonly oneOf: readonly (infer One)[] } ? FromJsonSchema<One>
          : S extends { readonly type: infer Type } ? OfType<Type extends readonly (infer One)[] ? One : Type, S>
            : unknown;

/** Distributes over several types. */
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

/** One object type, as editors show it best. */
type Flat<T> = { [Name in keyof T]: T[Name] };

/**
 * What libraries have that turn their schemas into JSON schema: Standard JSON Schema, or a method
 * of their own.
 */
interface Convertible {
  '~standard'?: { jsonSchema?: { input?: (options: { target: string }) => unknown } };
  toJSONSchema?: () => unknown;
  toJsonSchema?: () => unknown;
}

/**
 * The JSON schema of a schema.
 * @throws RecuaError `invalid_schema` where it is none, or comes from a library that does not give
 *   one.
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
        `The schema for ${param} comes from a version of ${String(schema['~standard'].vendor)} that gives no JSON schema by itself; use a newer one, or give the JSON schema (z.toJSONSchema(schema) with zod).`, { param });
    }
  } catch (thrown) {
    if (thrown instanceof RecuaError) throw thrown;
    throw new RecuaError('invalid_schema', `The schema for ${param} has no JSON schema: ${(thrown as Error).message}`, { param, cause: thrown });
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    throw new RecuaError('invalid_schema', `Expected a schema for ${param}: an object of JSON schema, or a schema of zod and its like.`, { param });
  }
  return json;
}

/**
 * A value that follows the schema's JSON, as the schema's own library wants it.
 * @throws RecuaError `answer_invalid` with what it found wrong.
 */
export async function checkBySchema(schema: Schema | undefined, value: unknown): Promise<unknown> {
  if (schema === undefined || !isStandard(schema)) return value;
  const result = await schema['~standard'].validate(value);
  if (result.issues === undefined) return result.value;
  const issues = result.issues.map(({ message, path }) => (path?.length ? `${path.map(segment).join('.')}: ${message}` : message));
  throw new RecuaError('answer_invalid', `The schema refuses the answer: ${issues.join('; ')}`);
}

function segment(part: unknown): string {
  return String(typeof part === 'object' && part !== null && 'key' in part ? part.key : part);
}

function isStandard(schema: Schema): schema is StandardSchema {
  return '~standard' in schema;
}
