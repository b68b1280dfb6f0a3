// The constraint that a request puts on the text of the answer, by the field names of OpenAI,
// llama-server and vLLM. Pure. Called by the readers of chats and completions.
import type { ChatRequest, Constraint } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { Fields, isObject, wrongType, wrongValue } from './fields.js';
import { weighJson } from './json-weight.js';
import { choiceConstraint, grammarConstraint, regexConstraint } from './grammar/constraint.js';

/** A constraint and the field that defines it. */
type Given = readonly [name: string, constraint: Constraint];

export function conflict(one: string, other: string): RecuaError {
  return new RecuaError('invalid_value', `Expected ${one} or ${other}, got both; leave one out.`, { param: one });
}

/**
 * A request may have at most one constraint. `own`: constraints from the dialect's own fields, by
 * name.
 */
export function readConstraint(body: Fields, own: Readonly<Record<string, Constraint | undefined>> = {}): Constraint {
  const given: Given[] = [];
  for (const [name, constraint] of Object.entries(own)) if (constraint && constraint.kind !== 'none') given.push([name, constraint]);
  const grammar = body.string('grammar');
  // Clients of llama-server send an empty string for none.
  if (grammar) given.push([body.param('grammar'), { kind: 'grammar', grammar, ...(body.path === '' ? {} : { param: body.param('grammar') }) }]);
  const schema = readSchema(body, 'json_schema');
  if (schema !== undefined) given.push([body.param('json_schema'), schemaConstraint(schema, false, body.param('json_schema'))]);
  const format = body.fields('response_format');
  const formatted = format && readFormat(format);
  if (formatted) given.push([format.path, formatted]);
  given.push(...readSugar(body, ['regex', 'choice'], ''), ...readSugar(body, ['regex', 'choice', 'json', 'grammar'], 'guided_'));
  const structured = body.fields('structured_outputs');
  if (structured) given.push(...readSugar(structured, ['regex', 'choice', 'json', 'grammar', 'json_object'], ''));
  const [first, second] = given;
  if (first && second) throw conflict(first[0], second[0]);
  // A fixed text cannot be made longer.
  if (first?.[1].kind === 'grammar' && first[1].param?.endsWith('choice') && body.peek('min_tokens')) throw conflict(body.param('min_tokens'), first[1].param);
  return first?.[1] ?? { kind: 'none' };
}

/** Tools have a grammar of their own, which cannot be combined with another one. */
export function refuseBesideTools(constraint: Constraint, { tools, toolChoice }: Pick<ChatRequest, 'tools' | 'toolChoice'>): void {
  if (constraint.kind === 'grammar' && tools !== '' && toolChoice !== 'none') throw conflict(constraint.param ?? 'grammar', 'tools');
}

/** vLLM's `guided_…` fields, in newer versions `structured_outputs`. */
function readSugar(fields: Fields, names: readonly ('regex' | 'choice' | 'json' | 'grammar' | 'json_object')[], prefix: string): Given[] {
  return names.flatMap((name): Given[] => {
    const [field, param] = [prefix + name, fields.param(prefix + name)];
    const value = fields.get(field);
    if (value === undefined || (value === '' && name === 'grammar')) return [];
    switch (name) {
      case 'regex':
        return [[param, regexConstraint(value, param)]];
      case 'choice':
        return [[param, choiceConstraint(value, param)]];
      case 'grammar':
        return [[param, grammarConstraint(value, param)]];
      case 'json_object':
        return fields.boolean(field) ? [[param, schemaConstraint({ type: 'object' }, false, param)]] : [];
      case 'json':
        // vLLM also takes the schema as a string.
        return [[param, schemaConstraint(typeof value === 'string' ? parse(value, param) : readSchema(fields, field), false, param)]];
    }
  });
}

function parse(text: string, param: string): unknown {
  weighJson(Buffer.from(text), param);
  try {
    const schema = JSON.parse(text) as unknown;
    if (isObject(schema) || typeof schema === 'boolean') return schema;
  } catch {
    // Reported below.
  }
  throw wrongValue(param, 'a JSON schema', text);
}

/**
 * An object, or true for any value. False, which no value satisfies, is refused with the schema.
 */
export function readSchema(fields: Fields, name: string): unknown {
  const schema = fields.get(name);
  if (schema === undefined || isObject(schema) || typeof schema === 'boolean') return schema;
  throw wrongType(fields.param(name), 'an object or true', schema);
}

export function schemaConstraint(schema: unknown, strict: boolean, param: string): Constraint {
  return { kind: 'schema', schema: JSON.stringify(schema), strict, param };
}

const formats = ['text', 'json_object', 'json_schema', 'grammar', 'regex', 'choice'] as const;

/**
 * Reads `response_format`, and `text.format` of Responses, which is `flat`: the fields of a type
 * stand next to `type`. llama-server accepts both layouts. Undefined for plain text. As with
 * OpenAI, a schema is strict only if the request says so.
 */
export function readFormat(format: Fields, flat = false): Constraint | undefined {
  const type = format.word('type', formats);
  switch (type) {
    case 'text':
      return undefined;
    case 'json_object':
      return schemaConstraint(readSchema(format, 'schema') ?? { type: 'object' }, false, format.param('schema'));
    case 'json_schema': {
      const inside = flat || (format.get('json_schema') === undefined && format.get('schema') !== undefined);
      const given = inside ? format : Fields.of(format.get('json_schema'), format.param('json_schema'));
      given.string('name');
      const strict = given.boolean('strict') ?? false;
      const schema = readSchema(given, 'schema');
      if (schema === undefined) throw wrongType(given.param('schema'), 'an object', undefined);
      return schemaConstraint(schema, strict, given.param('schema'));
    }
    case 'grammar':
      return grammarConstraint(format.get('grammar'), format.param('grammar'));
    case 'regex': {
      const name = format.get('regex') === undefined ? 'pattern' : 'regex';
      return regexConstraint(format.get(name), format.param(name));
    }
    case 'choice':
      return choiceConstraint(format.get('choice'), format.param('choice'));
    default:
      throw wrongType(format.param('type'), '"text", "json_object" or "json_schema"', undefined);
  }
}
