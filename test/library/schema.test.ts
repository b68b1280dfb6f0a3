import t from 'tap';
import { tool, type FromJsonSchema, type FromSchema, type StandardSchema } from 'recua';
import { codeOf, inBothModes } from './modes.js';

const person = {
  type: 'object', properties: { name: { type: 'string', maxLength: 20 }, age: { type: 'integer' } }, required: ['name', 'age'], additionalProperties: false,
} as const;
const ask = 'My name is Ana and I am 7. Reply in JSON.';

/** Asserts at compile time that two types are equal. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false;
const same = <A, B>(..._: Same<A, B> extends true ? [] : ['these types differ', A, B]): void => undefined;

/** Schemas as zod and similar libraries make them. */
function standard<Output>(json: object, validate: (value: unknown) => Output): StandardSchema<Output> {
  return {
    '~standard': {
      version: 1, vendor: 'test',
      validate(value) {
        try {
          return { value: validate(value) };
        } catch (error) {
          return { issues: [{ message: (error as Error).message, path: ['age'] }] };
        }
      },
      jsonSchema: { input: ({ target }: { target: string }) => ({ $schema: target, ...json }) },
    } as StandardSchema<Output>['~standard'],
  };
}

t.test('types come from the schema', async (t) => {
  same<FromSchema<typeof person>, { name: string; age: number }>();
  same<FromSchema<undefined>, undefined>();
  same<FromSchema<StandardSchema<Date>>, Date>();
  same<FromJsonSchema<{ type: 'object'; properties: { a: { type: 'string' }; b: { type: 'null' } }; required: readonly ['a'] }>, { a: string; b?: null }>();
  same<FromJsonSchema<{ type: 'array'; items: { enum: readonly ['x', 'y'] } }>, ('x' | 'y')[]>();
  same<FromJsonSchema<{ type: readonly ['string', 'null'] }>, string | null>();
  same<FromJsonSchema<{ anyOf: readonly [{ type: 'boolean' }, { const: 5 }] }>, boolean | 5>();
  same<FromJsonSchema<{ type: 'object' }>, Record<string, unknown>>();
  same<FromJsonSchema<Record<string, unknown>>, unknown>();
  tool({ parameters: person, execute: ({ name, age }) => same<[typeof name, typeof age], [string, number]>() });
  t.pass('the compiler agrees');
});

inBothModes('text that spells the name of a control token stays in the answer', async (t, load) => {
  const model = await load(t);
  const schema = { type: 'object', properties: { a: { const: '<|im_start|>x' } }, required: ['a'], additionalProperties: false };
  t.equal((await model.chat(ask, { schema: null as never, temperature: 0, maxTokens: 4 })).object, undefined, 'null means no schema');
  t.strictSame((await model.chat(ask, { schema, temperature: 0 })).object, { a: '<|im_start|>x' });
  const { toolCalls } = await model.chat(ask, { tools: { take: { parameters: schema } }, toolChoice: 'required', temperature: 0 });
  t.match(toolCalls, [{ name: 'take', arguments: { a: '<|im_start|>x' } }]);
  t.equal((await model.complete(ask, { grammar: 'root ::= "<|im_start|>" [ab]', temperature: 0 })).content.slice(0, -1), '<|im_start|>');
});

inBothModes('a schema gives a typed object', async (t, load) => {
  const model = await load(t);
  const { object, content } = await model.chat(ask, { temperature: 0, schema: person });
  same<typeof object, { name: string; age: number }>();
  t.strictSame(object, { name: 'Ana', age: 7 });
  t.strictSame(JSON.parse(content), object);
  const inline = await model.complete('{"', { temperature: 0, schema: { enum: ['red', 'blue'] } });
  same<typeof inline.object, 'red' | 'blue'>();
  t.ok(['red', 'blue'].includes(inline.object));
  const none = await model.chat(ask, { temperature: 0, maxTokens: 3 });
  same<typeof none.object, undefined>();
});

inBothModes('an answer that is cut off inside its JSON rejects, with the partial text', async (t, load) => {
  const model = await load(t);
  const error: unknown = await model.chat(ask, { temperature: 0, schema: person, maxTokens: 4 }).catch((thrown: unknown) => thrown);
  t.match(error, { code: 'answer_incomplete', message: /cut off after 4 tokens; raise maxTokens/, details: { content: /^\{/ } });
  const ended = model.chat(ask, { temperature: 0, schema: person, stop: ':' });
  t.match(await ended.catch((thrown: unknown) => thrown), { code: 'answer_incomplete', message: /stop texts/ });
});

inBothModes('a number that may be cut off rejects, too', async (t, load) => {
  const model = await load(t);
  const schema = { type: 'integer', minimum: 100_000, maximum: 999_999 };
  const rejection = (options: object): Promise<unknown> => model.complete('12', { temperature: 0, schema, ...options }).catch((thrown: unknown) => thrown);
  t.match(await rejection({ maxTokens: 1 }), { code: 'answer_incomplete', message: /cut off after 1 token/, details: { content: /^\d+$/ } });
  const { content } = await model.complete('12', { temperature: 0, schema });
  t.match(content, /^\d{6}$/, 'a whole one');
  t.match(await rejection({ stop: content.slice(3) }), { code: 'answer_incomplete', message: /stop texts/ });
});

inBothModes('schemas of other libraries are converted, and check the answer', async (t, load) => {
  const model = await load(t);
  const doubled = standard(person, (value) => ({ born: 2000 + (value as { age: number }).age }));
  const { object } = await model.chat(ask, { temperature: 0, schema: doubled });
  same<typeof object, { born: number }>();
  t.strictSame(object, { born: 2007 });
  const refusing = standard(person, (): never => {
    throw new Error('too young');
  });
  t.match(await model.chat(ask, { temperature: 0, schema: refusing }).catch((thrown: unknown) => thrown), { code: 'answer_invalid', message: /age: too young/ });
  const { jsonSchema: _, ...bare } = doubled['~standard'] as StandardSchema['~standard'] & { jsonSchema: unknown };
  t.match(await model.chat(ask, { schema: { '~standard': bare } }).catch((thrown: unknown) => thrown), { code: 'invalid_schema', message: /version of test that gives no JSON schema/ });
  t.strictSame((await model.chat(ask, { temperature: 0, schema: { toJSONSchema: () => person } })).object, { name: 'Ana', age: 7 });
  t.equal(await codeOf(model.chat(ask, { schema: { toJSONSchema: () => { throw new Error('no'); } } })), 'invalid_schema');
  t.equal(await codeOf(model.chat(ask, { schema: { type: 'nonsense' } })), 'invalid_schema');
});
