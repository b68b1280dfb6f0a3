// Renders the document as a page: docs/http.md. Pure. Run by scripts/docs.mjs; a test compares the
// file with the result.
import type { ErrorCode } from '../../errors.js';
import { constraintWords, samplingWords, thoughtsWords } from '../../request/words.js';
import type { Document, PathOperation } from './document.js';
import { bodyErrors, routeErrors } from './operation.js';
import type { Schema } from './schema.js';

const base = 'http://127.0.0.1:8080';

interface Told {
  method: string;
  path: string;
  aliases: string[];
  operation: PathOperation;
}

interface Row {
  name: string;
  type: string;
  text: string;
}

/** Fields that several bodies share are listed once. */
const groups: readonly { title: string; about: string; places: readonly string[] }[] = [
  { title: 'Sampling', about: 'Settings of llama.cpp\'s samplers. The defaults are those of a server started without sampling options.', places: Object.keys(samplingWords) },
  { title: 'Forms of an answer', about: 'The form that the answer must have, enforced during generation. Give at most one of these.', places: Object.keys(constraintWords) },
  { title: 'Thinking', about: 'How long the model may think.', places: Object.keys(thoughtsWords) },
];

export function markdown(document: Document): string {
  const page = new Page(document);
  return `${page.lines().join('\n')}\n`;
}

class Page {
  readonly #document: Document;
  readonly #all: Told[];
  /** Bodies that are already on the page, with the route that lists them. */
  readonly #bodies = new Map<string, Told>();
  readonly #groups = new Map<string, Row[]>();
  readonly #objects: Record<string, Schema>;

  constructor(document: Document) {
    this.#document = document;
    this.#objects = document.components.schemas;
    const byOperation = new Map<string, Told>();
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        const first = byOperation.get(operation.operationId.replace(/\d+$/, ''));
        if (first) first.aliases.push(path);
        else byOperation.set(operation.operationId, { method: method.toUpperCase(), path, aliases: [], operation });
      }
    }
    this.#all = [...byOperation.values()];
  }

  lines(): string[] {
    const { tags, info } = this.#document;
    const topics = tags.flatMap(({ name, description }) => [`## ${name}`, '', ...prose(description), ...this.#of(name).flatMap((told) => this.#route(told))]);
    return [
      '# HTTP API', '', '<!-- Written by scripts/docs.mjs from the routes in src/server: change it there. -->', '',
      ...prose(info.description),
      ...prose(`Any route with a body may fail with ${codes(bodyErrors)}, and any route at all with ${codes(routeErrors)}. Each route lists its other codes; [errors.md](errors.md) explains them all. \`GET /openapi.json\` is this page for programs.`),
      ...tags.flatMap(({ name }) => [`- [${name}](#${anchor(name)}): ${this.#of(name).map((told) => this.#link(told)).join(', ')}`]), '',
      ...topics,
      ...this.#groupLines(),
      '## Objects', '', 'The objects in replies. A field with a question mark is optional.', '',
      ...this.#objectLines(),
    ];
  }

  #of(topic: string): Told[] {
    return this.#all.filter(({ operation }) => operation.tags[0] === topic);
  }

  #link({ method, path }: Told): string {
    return `[\`${method} ${path}\`](#${anchor(`${method} ${path}`)})`;
  }

  #route(told: Told): string[] {
    const { method, path, aliases, operation } = told;
    return [
      `### ${method} ${path}`, '',
      `${operation.summary}${aliases.length > 0 ? ` Also ${aliases.map((alias) => `\`${alias}\``).join(', ')}.` : ''}`, '',
      ...prose(operation.description ?? ''),
      ...(operation.responses['101'] ? socketExample(path) : ['```sh', curl(told), '```', '']),

      ...this.#parameters(operation), ...this.#body(told), ...this.#replies(operation), ...errors(operation),
    ];
  }

  #parameters({ parameters = [] }: PathOperation): string[] {
    const rows = parameters.map(({ name, in: where, required, description, schema }): Row => (
      { name: where === 'path' ? `{${name}}` : where === 'header' ? `${name}:` : `?${name}=`, type: this.#type(schema), text: `${required && where !== 'path' ? '**Required.** ' : ''}${description}${defaultOf(schema)}` }
    ));
    return table('Parameter', rows);
  }

  #body(told: Told): string[] {
    const [type, content] = Object.entries(told.operation.requestBody?.content ?? {})[0] ?? [];
    if (!content) return [];
    const { $ref: reference } = content.schema;
    if (type !== 'application/json') return table('Form field', this.#rows(content.schema, '', true));
    const known = this.#bodies.get(String(reference));
    if (known) return [`Takes the same body as ${this.#link(known)}.`, ''];
    this.#bodies.set(String(reference), told);
    return this.#bodyTable(this.#rows(content.schema, '', true));
  }

  /** Without the groups that have their own sections. */
  #bodyTable(rows: Row[]): string[] {
    let left = rows;
    const notes: string[] = [];
    for (const { title, places } of groups) {
      for (const prefix of ['', 'options.']) {
        const own = left.filter(({ name }) => name.startsWith(prefix) && isIn(bare(name.slice(prefix.length)), places));
        if (own.length < 4) continue;
        const short = own.map((row) => ({ ...row, name: row.name.slice(prefix.length) }));
        const known = this.#groups.get(title);
        if (!known) this.#groups.set(title, short);
        else if (JSON.stringify(known) !== JSON.stringify(short)) continue;
        left = left.filter((row) => !own.includes(row));
        const link = `[${title}](#${anchor(title)})`;
        if (prefix === '') notes.push(link);
        else if (notes.at(-1) === link) notes[notes.length - 1] = `${link} (here or inside \`options\`)`;
        else notes.push(`${link} (inside \`options\`)`);
      }
    }
    return [...table('Field', left), ...(notes.length === 0 ? [] : [`Plus the fields of ${notes.join(', ')}.`, ''])];
  }

  #groupLines(): string[] {
    return groups.flatMap(({ title, about }) => [`## ${title}`, '', about, '', ...table('Field', this.#groups.get(title) ?? [])]);
  }

  #replies({ responses }: PathOperation): string[] {
    return Object.entries(responses['200']?.content ?? {}).map(([type, { schema }]) => {
      if (type === 'text/event-stream') return `Events of a stream (\`${type}\`): ${this.#type(schema)}.`;
      if (type === 'application/x-ndjson') return `Lines of a stream (\`${type}\`): ${this.#type(schema)}.`;
      const returned = `Returns ${type === 'application/json' ? '' : `\`${type}\`: `}${this.#type(schema).replace(/^object$/, 'an object')}`;
      // Alternatives may share fields.
      const fields = new Map(this.#inner(schema, '', false).map((row) => [row.name, row]));
      return fields.size === 0 ? `${returned}.` : [`${returned}:`, '', ...table('Reply field', [...fields.values()]).slice(0, -1)].join('\n');
    }).flatMap((line) => [line, '']);
  }

  #objectLines(): string[] {
    const bodies = new Set(this.#all.map(({ operation }) => nameOf(operation.requestBody?.content['application/json']?.schema)));
    const inBodies = new Set<string>();
    const visit = (name: string): void => {
      if (inBodies.has(name)) return;
      inBodies.add(name);
      for (const [, inner] of JSON.stringify(this.#objects[name] ?? {}).matchAll(/#\/components\/schemas\/(\w+)/g)) visit(inner!);
    };
    for (const name of bodies) if (name) visit(name);
    return Object.entries(this.#objects).filter(([name]) => !inBodies.has(name)).flatMap(([name, schema]) => [`### ${name}`, '', ...this.#object(schema)]);
  }

  #object(schema: Schema): string[] {
    const variants = Array.isArray(schema['anyOf']) ? schema['anyOf'] as Schema[] : undefined;
    if (variants) return ['One of these:', '', ...variants.flatMap((variant) => this.#variant(variant))];
    if (schema['properties']) return table('Field', this.#rows(schema, '', false));
    return [`${sentence(this.#type(schema))}.`, ''];
  }

  #variant(variant: Schema): string[] {
    const fields = variant['properties'] ? this.#rows(variant, '', false) : [];
    const told = variant.description ? ` ${variant.description}` : '';
    if (fields.length === 0) return [`- ${this.#type(variant)}.${told}`, ''];
    return [`- ${fields.map(({ name, type }) => `\`${name}\` ${type}`).join('; ')}.${told}`, ''];
  }

  /** Fields at any depth, with the names that errors use for them. */
  #rows(schema: Schema, place: string, isBody: boolean): Row[] {
    const { properties = {}, required = [] } = this.#resolve(schema) as {
      properties?: Record<string, Schema>;
      required?: readonly string[];
    };
    return Object.entries(properties).flatMap(([name, field]): Row[] => {
      const isRequired = required.includes(name);
      const at = place === '' ? name : `${place}.${name}`;
      const told = `${isBody && isRequired ? '**Required.** ' : ''}${field.description ?? ''}${defaultOf(field)}`;
      const row = { name: isBody || isRequired ? at : `${at}?`, type: this.#type(field, isBody), text: told.trim() };
      return [row, ...this.#inner(field, at, isBody)];
    });
  }

  #inner(field: Schema, at: string, isBody: boolean): Row[] {
    const alternatives = (field['anyOf'] as Schema[] | undefined) ?? [field];
    return alternatives.flatMap((one) => {
      const own = isBody ? this.#resolve(one) : one;
      if (own['properties']) return this.#rows(own, at, isBody);
      if (own['items']) return this.#inner(own['items'] as Schema, `${at}[]`, isBody);
      return own['anyOf'] && own !== field ? this.#inner(own, at, isBody) : [];
    });
  }

  #resolve(schema: Schema): Schema {
    const name = nameOf(schema);
    return name === undefined ? schema : this.#objects[name]!;
  }

  /** The type in words. Bodies leave out null, since the page says that it counts as absent. */
  #type(schema: Schema, isBody = false): string {
    const name = nameOf(schema);
    if (name !== undefined) return isBody ? this.#type(this.#objects[name]!, true) : `[${name}](#${anchor(name)})`;
    if (Array.isArray(schema['anyOf'])) {
      const all = (schema['anyOf'] as Schema[]).filter(({ type }) => !isBody || type !== 'null').map((one) => this.#type(one, isBody));
      return [...new Set(all)].join(' or ');
    }
    if ('const' in schema) return `\`${JSON.stringify(schema['const'])}\``;
    const types = [schema['type'] ?? 'any'].flat() as string[];
    if (isBody && types.length === 1 && types[0] === 'null') return 'null';
    if (Array.isArray(schema['enum'])) {
      const values = (schema['enum'] as unknown[]).filter((value) => !isBody || value !== null);
      return values.length > 12 ? 'string' : values.map((value) => `\`${JSON.stringify(value)}\``).join(', ');
    }
    return types.filter((type) => !isBody || type !== 'null').map((type) => this.#plain(type, schema, isBody)).join(' or ');
  }

  #plain(type: string, schema: Schema, isBody: boolean): string {
    switch (type) {
      case 'string': {
        if (schema['contentMediaType'] !== undefined) return 'file';
        const { maxLength: most } = schema as { maxLength?: number };
        return most === undefined ? 'string' : `string of ${schema['minLength'] === undefined ? 'at most' : '1 to'} ${most} characters`;
      }
      case 'integer':
      case 'number':
        return `${type}${bounds(schema)}`;
      case 'boolean':
        return '`true` or `false`';
      case 'array': {
        const { items, maxItems } = schema as { items?: Schema; maxItems?: number };
        if (maxItems === 0) return 'empty array';
        const most = maxItems === undefined ? '' : ` (at most ${maxItems})`;
        const item = items === undefined ? '' : this.#type(items, isBody);
        return item === '' ? `array${most}` : `array${most} of ${item.includes(' or ') ? `(${item})` : item}`;
      }
      case 'object':
        return 'object';
      case 'null':
        return 'null';
      default:
        return 'any JSON';
    }
  }
}

function isIn(place: string, places: readonly string[]): boolean {
  return places.includes(place) || places.some((other) => place.startsWith(`${other}.`) || place.startsWith(`${other}[]`));
}

const bare = (name: string): string => name.replace(/\?$/, '');

function bounds({ minimum, maximum }: Schema): string {
  const of = (bound: unknown): string => (Math.abs(Number(bound)) >= 2 ** 31 - 2 ? '' : String(bound));
  const [low, high] = [minimum === undefined ? '' : of(minimum), maximum === undefined ? '' : of(maximum)];
  if (low !== '' && high !== '') return ` from ${low} to ${high}`;
  return low !== '' ? ` ≥ ${low}` : high !== '' ? ` ≤ ${high}` : '';
}

function defaultOf(schema: Schema): string {
  const { default: value } = schema;
  return value === undefined ? '' : ` Default: \`${JSON.stringify(value)}\`.`;
}

function curl({ method, path, operation }: Told): string {
  const filled = `${base}${path.replace(/\{(\w+)\}/g, (_all, name: string) => (path.startsWith('/slots/') ? '0' : `$${name.toUpperCase()}`))}`;
  const query = (operation.parameters ?? []).filter((one) => one.in === 'query' && one.required).map(({ name, example }) => `${name}=${example}`);
  const place = query.length === 0 ? filled : `"${filled}?${query.join('&')}"`;
  const content = operation.requestBody?.content ?? {};
  if (content['multipart/form-data']) return `curl ${place} -F purpose=batch -F file=@requests.jsonl`;
  const { example } = content['application/json'] ?? {};
  const usual = example === undefined ? 'GET' : 'POST';
  const headers = (operation.parameters ?? []).filter((one) => one.in === 'header').map(({ name, example }) => ` -H '${name}: ${example}'`);
  const asked = `${method === usual ? '' : ` -X ${method}`}${headers.join('')}`;
  if (example === undefined) return `curl${asked} ${place}`;
  return `curl${asked} ${place} -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(example)}'`;
}

/** curl opens no WebSockets, so a client in JavaScript is shown. */
function socketExample(path: string): string[] {
  return [
    'In Node 22 or newer, or in a browser (a plain GET, such as that of curl, gets the 426):', '',
    '```js',
    `const socket = new WebSocket('${base.replace('http', 'ws')}${path}');`,
    "socket.onopen = () => socket.send(JSON.stringify({ type: 'response.create', input: 'Hello! Who are you?' }));",
    'socket.onmessage = ({ data }) => {',
    '  const event = JSON.parse(data);',
    "  if (event.type === 'response.output_text.delta') console.log(event.delta);",
    "  if (['response.completed', 'response.incomplete', 'response.failed', 'error'].includes(event.type)) socket.close();",
    '};',
    '```', '',
  ];
}

function errors({ requestBody, responses }: PathOperation): string[] {
  const usual: readonly ErrorCode[] = requestBody ? [...bodyErrors, ...routeErrors] : routeErrors;
  const own = Object.values(responses).flatMap((response) => response['x-error-codes'] ?? []).filter((code) => !usual.includes(code));
  return own.length === 0 ? [] : prose(`Fails with ${codes(own)}.`);
}

function codes(all: readonly string[]): string {
  return all.map((code) => `\`${code}\``).join(', ');
}

function table(head: string, rows: readonly Row[]): string[] {
  if (rows.length === 0) return [];
  const cell = (value: string): string => value.replaceAll('|', '\\|').replaceAll('\n', ' ');
  return [`| ${head} | | |`, '|---|---|---|', ...rows.map(({ name, type, text }) => `| \`${name}\` | ${cell(type)} | ${cell(text)} |`), ''];
}

function sentence(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function nameOf(schema: Schema | undefined): string | undefined {
  const { $ref: reference } = schema ?? {};
  return typeof reference === 'string' ? reference.slice('#/components/schemas/'.length) : undefined;
}

/** The anchor that GitHub derives from a heading. */
function anchor(title: string): string {
  return title.toLowerCase().replace(/[^\w\- ]/g, '').replaceAll(' ', '-');
}

/** Lines of at most 100 columns. */
function prose(text: string): string[] {
  if (text === '') return [];
  return text.split('\n\n').flatMap((paragraph) => {
    const lines: string[] = [''];
    for (const word of paragraph.split(' ')) {
      const last = lines.at(-1)!;
      if (last !== '' && last.length + 1 + word.length > 100) lines.push(word);
      else lines[lines.length - 1] = last === '' ? word : `${last} ${word}`;
    }
    return [...lines, ''];
  });
}
