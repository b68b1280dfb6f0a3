// The OpenAPI document of all routes. Pure. Called by app, for GET /openapi.json, and by
// `npm run docs`.
import { isDeepStrictEqual } from 'node:util';
import { errorTable, type ErrorCode } from '../../errors.js';
import { bodySchema } from './asks.js';
import { bodyErrors, isBody, routeErrors, type Operation, type Reply } from './operation.js';
import { definition, type Schema } from './schema.js';
import { aboutAll, topics } from './topics.js';

/** The parts of a route that this file needs. */
export interface Documented {
  method: string;
  paths: readonly string[];
  about: Operation;
}

export interface Document {
  openapi: '3.1.0';
  info: { title: string; version: string; description: string; license: { name: string; identifier: string } };
  servers: { url: string }[];
  security: Record<string, []>[];
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, PathOperation>>;
  components: { schemas: Record<string, Schema>; securitySchemes: Record<string, object> };
}

export interface PathOperation {
  operationId: string;
  tags: string[];
  summary: string;
  description?: string;
  parameters?: { name: string; in: 'path' | 'query' | 'header'; required: boolean; description: string; schema: Schema; example?: string }[];
  requestBody?: { required: true; content: Record<string, { schema: Schema; example?: unknown }> };
  responses: Record<string, { description: string; content?: Record<string, { schema: Schema }>; 'x-error-codes'?: readonly ErrorCode[] }>;
}

/** An Express path in OpenAPI's notation. */
export function openApiPath(path: string): string {
  return path.replace(/[:*](\w+)/g, '{$1}');
}

/** `problems`: fields without words, words without fields, names with two meanings. */
export interface Made {
  document: Document;
  problems: string[];
}

/** Yields after each route: all of them take a few tenths of a second. */
export function* makeDocument(routes: readonly Documented[], version: string): Generator<void, Made> {
  const writer = new DocumentWriter();
  const paths: Document['paths'] = {};
  for (const { method, paths: [first, ...others], about } of routes) {
    const operation = writer.operation(about, first!);
    (paths[openApiPath(first!)] ??= {})[method] = operation;
    others.forEach((path, index) => {
      const alias: PathOperation = { ...operation, operationId: `${about.id}${index + 2}`, description: `The same as \`${method.toUpperCase()} ${openApiPath(first!)}\`.` };
      (paths[openApiPath(path)] ??= {})[method] = alias;
    });
    yield;
  }
  const document: Document = {
    openapi: '3.1.0',
    info: { title: 'Recua', version, description: aboutAll, license: { name: 'MIT', identifier: 'MIT' } },
    servers: [{ url: '/' }],
    // Only a server with keys requires one.
    security: [{}, { bearer: [] }, { header: [] }, { azure: [] }],
    tags: Object.entries(topics).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas: writer.schemas(),
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' }, header: { type: 'apiKey', in: 'header', name: 'x-api-key' }, azure: { type: 'apiKey', in: 'header', name: 'api-key' } },
    },
  };
  return { document, problems: writer.problems };
}

class DocumentWriter {
  readonly #schemas = new Map<string, Schema>();
  readonly #bodies = new Map<string, Schema>();
  readonly problems: string[] = [];

  schemas(): Record<string, Schema> {
    return Object.fromEntries([...this.#schemas].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  operation(about: Operation, path: string): PathOperation {
    const { id, topic, summary, about: description, reply, stream } = about;
    const parameters = [...this.#inPath(about, path), ...this.#inQuery(about), ...inHeaders(about)];
    const content = {
      ...(reply.empty ? {} : { [reply.type ?? 'application/json']: { schema: this.#collect(reply.schema) } }),
      ...(stream ? { [stream.type]: { schema: this.#collect(stream.event) } } : {}),
    };
    return {
      operationId: id,
      tags: [topic],
      summary,
      ...(description === undefined ? {} : { description }),
      ...(parameters.length === 0 ? {} : { parameters }),
      ...this.#requestBody(about),
      responses: {
        ...(reply.opensSocket ? { 101: { description: 'The connection is a WebSocket from now on.' } } : { 200: { description: stream ? 'The reply, or each event of the stream.' : 'The reply.', ...(Object.keys(content).length === 0 ? {} : { content }) } }),
        ...this.#others(reply),
        ...this.#errors(about),
      },
    };
  }

  #inPath({ params = {} }: Operation, path: string): NonNullable<PathOperation['parameters']> {
    return [...openApiPath(path).matchAll(/\{(\w+)\}/g)].map(([, name]) => {
      if (params[name!] === undefined) this.problems.push(`${path}: ${name} is not described`);
      return { name: name!, in: 'path', required: true, description: params[name!] ?? '', schema: { type: 'string' } };
    });
  }

  #inQuery({ query = {} }: Operation): NonNullable<PathOperation['parameters']> {
    return Object.entries(query).map(([name, { description, example, ...schema }]) => ({
      name, in: 'query', required: example !== undefined, description: String(description), schema, ...(typeof example === 'string' ? { example } : {}),
    }));
  }

  #requestBody({ body }: Operation): Pick<PathOperation, 'requestBody'> {
    if (!body) return {};
    if (!isBody(body)) return { requestBody: { required: true, content: { 'multipart/form-data': { schema: this.#collect(body.form) } } } };
    let schema = this.#bodies.get(body.name);
    if (!schema) {
      const made = bodySchema(body);
      this.problems.push(...made.problems);
      this.#bodies.set(body.name, (schema = this.#collect(made.schema)));
    }
    return { requestBody: { required: true, content: { 'application/json': { schema, example: body.examples[0] } } } };
  }

  #others({ others = {} }: Reply): PathOperation['responses'] {
    return Object.fromEntries(Object.entries(others).map(([status, { text, schema }]) => [status, { description: text, content: { 'application/json': { schema: this.#collect(schema) } } }]));
  }

  #errors({ body, errors, error, reply }: Operation): PathOperation['responses'] {
    const byStatus = new Map<number, ErrorCode[]>();
    for (const code of new Set([...routeErrors, ...(body ? bodyErrors : []), ...errors])) {
      const { status } = errorTable[code];
      byStatus.set(status, [...byStatus.get(status) ?? [], code]);
    }
    return Object.fromEntries([...byStatus].filter(([status]) => !reply.others?.[status]).map(([status, codes]) => [status, {
      description: codes.map((code) => `\`${code}\`: ${errorTable[code].meaning}`).join(' '),
      content: { 'application/json': { schema: this.#collect(error) } },
      'x-error-codes': codes,
    }]));
  }

  /** The schema with its definitions moved to the components. */
  #collect(schema: Schema): Schema {
    const { [definition]: referred, ...rest } = schema;
    const plain = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, this.#within(value)]));
    if (referred) {
      const name = String(plain['$ref']).replace(/^.*\//, '');
      const known = this.#schemas.get(name);
      // Set before its contents are collected, since they may refer to it.
      if (!known) this.#schemas.set(name, {});
      const made = this.#collect(referred);
      if (known && Object.keys(known).length > 0 && !isDeepStrictEqual(known, made)) this.problems.push(`${name} is the name of two schemas`);
      this.#schemas.set(name, made);
    }
    return plain;
  }

  #within(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((one) => this.#within(one));
    return typeof value === 'object' && value !== null ? this.#collect(value as Schema) : value;
  }
}

function inHeaders({ headers = {} }: Operation): NonNullable<PathOperation['parameters']> {
  return Object.entries(headers).map(([name, { description, example }]) => ({ name, in: 'header', required: true, description, schema: { type: 'string' }, example }));
}
