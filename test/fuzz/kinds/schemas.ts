// JSON schemas of an answer and of tool parameters: those that once crashed a converter, and
// keywords in any order with references anywhere.
import fc from 'fast-check';
import { hostileSchemas } from '../../native/hostile-schemas.js';
import { edited, edits, jsonOf, strangeValues, unchanged, type Edit } from '../edits.js';
import { kind, outcomeOf, type Outcome } from '../kind.js';
import { isRefusal, openNative } from './native-subject.js';

interface Case {
  schema: unknown;
  edits: Edit[];
  place: 'answer' | 'tool';
}

const names = ['a', 'b', 'c', '', 'é"\\', '__proto__', 'properties', '$ref'] as const;
const name = fc.constantFrom(...names);
const count = fc.constantFrom(0, 1, 2, 5, 64, 999, 100_000, 2 ** 31, -1, 1.5);
const bound = fc.oneof(fc.constantFrom(0, -1, 1, 0.1, 1e-9, 1e300, -1e300, 2 ** 53, -(2 ** 63), true), fc.double(), fc.integer());
const reference = fc.constantFrom('#', '#/', '#/d/F', '#/d/a', '#/$defs/a', '#/$defs/b', '#/properties/a', '#/properties/c/allOf/0', '#a', 'http://example.com/x', '#/d/F/properties/c', '#/%24defs/a', '#/~', '#/$defs/~1~0');
const pattern = fc.constantFrom('^a+$', '^(a|b)*c{2,5}$', '(', '^\\d{3}-\\w+$', '^((a*)*)*$', '[', '^[^"]{0,1000}$', '^(a{999}){999}$', '\\p{L}', '^$', '(?:x|y)|z', '^[\\s\\S]+$', '^\ud800$');

type Tie = (name: 'schema') => fc.Arbitrary<unknown>;

const keywords = (tie: Tie): Record<string, fc.Arbitrary<unknown>> => ({
  type: fc.oneof(
    fc.constantFrom('object', 'array', 'string', 'integer', 'number', 'boolean', 'null', 'nonsense'),
    fc.subarray(['object', 'array', 'string', 'integer', 'null']),
  ),
  properties: fc.dictionary(name, tie('schema'), { maxKeys: 4 }),
  required: fc.array(name, { maxLength: 3 }),
  additionalProperties: tie('schema'),
  patternProperties: fc.dictionary(pattern, tie('schema'), { maxKeys: 2 }),
  propertyNames: tie('schema'),
  items: fc.oneof(tie('schema'), fc.array(tie('schema'), { maxLength: 2 })),
  prefixItems: fc.array(tie('schema'), { maxLength: 3 }),
  contains: tie('schema'),
  minItems: count,
  maxItems: count,
  uniqueItems: fc.boolean(),
  minProperties: count,
  maxProperties: count,
  minLength: count,
  maxLength: count,
  minimum: bound,
  maximum: bound,
  exclusiveMinimum: bound,
  exclusiveMaximum: bound,
  multipleOf: bound,
  pattern,
  format: fc.constantFrom('date', 'date-time', 'time', 'uuid', 'email', 'ipv4', 'uri', 'regex', 'x'),
  enum: fc.array(fc.jsonValue({ maxDepth: 2 }), { maxLength: 4 }),
  const: fc.jsonValue({ maxDepth: 2 }),
  allOf: fc.array(tie('schema'), { maxLength: 3 }),
  anyOf: fc.array(tie('schema'), { maxLength: 3 }),
  oneOf: fc.array(tie('schema'), { maxLength: 3 }),
  not: tie('schema'),
  if: tie('schema'),
  then: tie('schema'),
  else: tie('schema'),
  dependentSchemas: fc.dictionary(name, tie('schema'), { maxKeys: 2 }),
  unevaluatedProperties: tie('schema'),
  $ref: reference,
  $defs: fc.dictionary(name, tie('schema'), { maxKeys: 3 }),
  d: fc.record({ F: tie('schema'), a: tie('schema') }, { requiredKeys: [] }),
  $id: reference,
  $anchor: name,
  nullable: fc.boolean(),
});
const keywordNames = Object.keys(keywords(() => fc.constant(true)));

const { schema } = fc.letrec<{ schema: unknown; node: unknown }>((tie) => ({
  schema: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<unknown>(true, false, {}, { type: 'string' }, { type: 'null' }, { const: 1 }),
    fc.record({ $ref: reference }),
    tie('node'),
  ),
  // Of forty keywords about five are used together; the others are not drawn.
  node: fc
    .uniqueArray(fc.constantFrom(...keywordNames), { maxLength: 6 })
    .chain((kept) => fc.record(Object.fromEntries(kept.map((name) => [name, keywords(tie)[name]!])))),
}));

/** Only the short ones: a separate test covers each. */
const known = Object.values(hostileSchemas).filter((one) => (typeof one === 'string' ? one : JSON.stringify(one)).length < 2_000).map((one): unknown => (typeof one === 'string' ? JSON.parse(one) : one));

export default kind<Case>({
  cases: fc.record({
    schema: fc.oneof({ weight: 5, arbitrary: schema }, fc.constantFrom(...known)),
    edits: fc.oneof({ weight: 3, arbitrary: unchanged }, edits(fc.oneof(strangeValues, schema))),
    place: fc.constantFrom('answer', 'answer', 'tool'),
  }),
  few: 300, mostMs: 20_000, mostMib: 700,
  async open() {
    const subject = await openNative();
    const grammarOf = async (text: string, place: Case['place']): Promise<string> => {
      if (place === 'answer') return (await subject.addon.compileSchema(text)).grammar;
      const tools = `[{"type":"function","function":{"name":"f","description":"d","parameters":${text}}}]`;
      return (await subject.chatPrompt(subject.model, 'Hi', { tools, toolChoice: 'required' })).grammar;
    };
    return {
      async take({ schema: given, edits: made, place }): Promise<Outcome> {
        try {
          return await subject.follow(await grammarOf(jsonOf(edited(given, made)), place));
        } catch (thrown) {
          return outcomeOf(thrown, isRefusal);
        }
      },
      close: () => subject.close(),
    };
  },
});
