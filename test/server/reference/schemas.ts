// The schemas of the document for tests: bodies with their readers, places in them, checks.
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Document } from '#recua/server/reference/document.js';
import { isBody, type Body } from '#recua/server/reference/operation.js';
import type { Schema } from '#recua/server/reference/schema.js';
import { operations as anthropic } from '#recua/server/anthropic/operations.js';
import { operations as batches } from '#recua/server/batches/operations.js';
import { operations as sessions } from '#recua/server/sessions/operations.js';
import { operations as llamaServer } from '#recua/server/llama-server/operations.js';
import { operations as ollama } from '#recua/server/ollama/operations.js';
import { operations as openai } from '#recua/server/openai/operations.js';
import { operations as responses } from '#recua/server/responses/operations.js';
import type { Operation } from '#recua/server/reference/operation.js';

export type Json = Record<string, any>;

let components: Record<string, Schema> = {};

export function resolve(schema: Schema): Schema {
  const { $ref: reference } = schema;
  return typeof reference === 'string' ? resolve(components[reference.replace(/^.*\//, '')]) : schema;
}

/** Each JSON body, with its schema. */
export function allBodies(document: Document): (Body & { schema: Schema })[] {
  components = document.components.schemas;
  const operations: Operation[] = [openai, responses, llamaServer, anthropic, ollama, batches, sessions].flatMap((all) =>
    Object.values(all),
  );
  const found = new Map<string, Body>(operations.flatMap(({ body }) => (isBody(body) ? [[body.name, body] as const] : [])));
  return [...found.values()].map((body) => ({ ...body, schema: components[body.name] }));
}

interface Place {
  place: string;
  field: Schema;
}

/** A field of an object in an example, present or not. */
interface FieldPlace extends Place {
  body: Json;
  holder: Json;
  key: string;
}

function alternatives(schema: Schema): Schema[] {
  const own = resolve(schema);
  return Array.isArray(own['anyOf']) ? own['anyOf'].flatMap((one: Schema) => alternatives(one)) : [own];
}

/** All places of a schema. */
export function placesIn(schema: Schema, at = ''): Place[] {
  return alternatives(schema).flatMap((one): Place[] => {
    if (one['items']) return placesIn(one['items'] as Schema, `${at}[]`);
    return Object.entries((one['properties'] ?? {}) as Record<string, Schema>).flatMap(([key, field]) => {
      const place = at === '' ? key : `${at}.${key}`;
      return [{ place, field }, ...placesIn(field, place)];
    });
  });
}

export function fieldsOf(schema: Schema, example: object): FieldPlace[] {
  const body = JSON.parse(JSON.stringify(example)) as Json;
  const visit = (value: unknown, one: Schema, at: string): FieldPlace[] => {
    if (Array.isArray(value)) {
      const items = alternatives(one).find((other) => other['items'])?.['items'] as Schema | undefined;
      return items ? value.flatMap((entry) => visit(entry, items, `${at}[]`)) : [];
    }
    const properties = alternatives(one).find((other) => other['properties'])?.['properties'] as Record<string, Schema> | undefined;
    if (typeof value !== 'object' || value === null || !properties) return [];
    return Object.entries(properties).flatMap(([key, field]) => {
      const place = at === '' ? key : `${at}.${key}`;
      return [{ place, field, body, holder: value as Json, key }, ...visit((value as Json)[key], field, place)];
    });
  };
  return visit(body, schema, '');
}

let ajv: Ajv2020 | undefined;

function checker(document: Document): Ajv2020 {
  if (!ajv) {
    ajv = new Ajv2020({ strict: false, allErrors: false });
    ajv.addSchema({ $id: 'all', components: document.components });
  }
  return ajv;
}

function absolute(value: unknown): any {
  return JSON.parse(JSON.stringify(value).replaceAll('"#/components/', '"all#/components/'));
}

export function validatorOf(document: Document, schema: Schema): (value: unknown) => boolean {
  return checker(document).compile(absolute(schema)) as (value: unknown) => boolean;
}

/** A copy in which objects have only the documented fields. */
export function exact(document: Document): Document {
  const visit = (value: unknown): any => {
    if (Array.isArray(value)) return value.map(visit);
    if (typeof value !== 'object' || value === null) return value;
    const copy = Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, visit(inner)])) as Json;
    if (copy['properties'] && copy['type'] && !('additionalProperties' in copy)) copy['additionalProperties'] = false;
    return copy;
  };
  return visit(JSON.parse(JSON.stringify(document)));
}

/** The fault of a value, or undefined. */
export function faultOf(document: Document): (schema: Schema, value: unknown) => string | undefined {
  const checks = new Ajv2020({ strict: false, allErrors: false });
  checks.addSchema({ $id: 'all', components: document.components });
  return (schema, value) => {
    const check = checks.compile(absolute(schema));
    return check(value) ? undefined : JSON.stringify(check.errors?.slice(-6).map(({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`));
  };
}
