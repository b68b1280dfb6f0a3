// The values that the grammar of a JSON schema accepts and refuses, the keywords it lists as
// unenforced, and its bounded number of steps.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { GbnfMatcher } from '../gbnf-matcher.js';
import { hostileSchemas } from '../hostile-schemas.js';
import { addon, chatPrompt, loadBuiltin } from '../setup.js';

const compile = async (schema: unknown) => {
  const { grammar, unenforced } = await addon.compileSchema(typeof schema === 'string' ? schema : JSON.stringify(schema));
  return { language: new GbnfMatcher(grammar), unenforced: unenforced.map(({ pointer }) => pointer) };
};

interface Case {
  schema: unknown;
  yes: unknown[];
  no: unknown[];
  unenforced?: string[];
}

const tree = (next: unknown) => ({ $ref: '#/$defs/node', $defs: { node: { type: 'object', properties: { v: { type: 'integer' }, next }, required: ['v'] } } });

const int64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n };

t.test('dates are days of the calendar, leap years included', async (t) => {
  const { language, unenforced } = await compile({ type: 'string', format: 'date' });
  t.strictSame(unenforced, []);
  const two = (number: number): string => String(number).padStart(2, '0');
  for (const year of [0, 4, 96, 100, 400, 1900, 2000, 2023, 2024, 2026, 2100, 9996, 9999]) {
    for (let month = 0; month <= 13; month++) {
      for (let day = 0; day <= 32; day++) {
        const text = `${String(year).padStart(4, '0')}-${two(month)}-${two(day)}`;
        const date = new Date(`${text}T00:00:00Z`);
        const isDay = !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
        if (language.matches(JSON.stringify(text)) !== isDay) t.fail(text);
      }
    }
  }
  const { language: times } = await compile({ type: 'string', format: 'date-time' });
  t.ok(times.matches('"2024-02-29T10:20:30Z"'));
  t.notOk(times.matches('"2023-02-29T10:20:30Z"'));
});

const keywords = (count: number, value: number): object => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, value]));

t.test('keywords that are not enforced are listed once each, and at most a hundred', async (t) => {
  const both = { allOf: [{ $ref: '#/$defs/a' }, { $ref: '#/$defs/b' }] };
  const properties = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`p${i}`, both]));
  const { unenforced } = await compile({ $defs: { a: keywords(200, 1), b: keywords(200, 2) }, properties });
  t.equal(unenforced.length, 100);
  t.equal(new Set(unenforced).size, 100);
});

t.test('schemas of some hundred keywords are combined, of thousands refused', async (t) => {
  t.equal((await compile({ allOf: [keywords(300, 1), keywords(300, 1)] })).unenforced.length, 100);
  await t.rejects(compile({ allOf: [keywords(7_000, 1), keywords(7_000, 1)] }), { code: 'invalid_schema', message: /too large or too complex/ });
});

t.test('the values of an enum count on each way to it', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const many = (count: number, name: string): object => ({ anyOf: Array.from({ length: count }, () => ({ $ref: `#/$defs/${name}` })) });
  const render = (ways: number, values: number): Promise<unknown> => {
    const parameters = { type: 'object', properties: { p: many(ways, 'D') }, $defs: { D: many(ways, 'E'), E: { enum: Array.from({ length: values }, (_, i) => i) } } };
    return chatPrompt(model, 'Hi', { tools: JSON.stringify([{ type: 'function', function: { name: 'f', parameters } }]), toolChoice: 'required' });
  };
  t.ok(await render(100, 20));
  await t.rejects(render(100, 10_000), { code: 'invalid_schema', message: /too large or too complex/ });
});

t.test('integers keep to their bounds, over all of int64', async (t) => {
  const bounds = [
    int64.min,
    -4294967296n,
    -1000n,
    -999n,
    -17n,
    -1n,
    0n,
    1n,
    9n,
    10n,
    99n,
    255n,
    1000n,
    4711n,
    2n ** 53n,
    9999999999999999n,
    int64.max,
  ];
  for (const min of bounds) {
    for (const max of bounds) {
      const text = `{"type":"integer","minimum":${min},"maximum":${max}}`;
      if (min > max) {
        await t.rejects(addon.compileSchema(text), { code: 'invalid_schema', message: /No integer lies within/ }, text);
        continue;
      }
      const { language } = await compile(text);
      for (const near of bounds) {
        for (const value of [near - 2n, near - 1n, near, near + 1n, near * 10n + 3n]) {
          const fits = min <= value && value <= max;
          if (language.matches(`${value}`) !== fits) t.fail(`${value} by ${text}`);
        }
      }
      for (const wrong of ['', '-', '01', '1.5', '1e3', '+1', 'x']) if (language.matches(wrong)) t.fail(`${wrong} by ${text}`);
    }
  }
  t.pass('all of them');
});

t.test('integers with one bound, and bounds as JavaScript and others write them', async (t) => {
  const cases: [string, string[], string[]][] = [
    ['"minimum":5', ['5', '10', '9999999999999999'], ['4', '0', '-5', '-10']],
    ['"maximum":5', ['5', '0', '-1', '-9999999999999999'], ['6', '10', '55']],
    ['"maximum":-12', ['-12', '-13', '-100'], ['-11', '-2', '0', '12']],
    ['"minimum":-3', ['-3', '-1', '0', '100'], ['-4', '-30']],
    ['"exclusiveMinimum":0', ['1', '10'], ['0', '-1']],
    ['"exclusiveMinimum":0.5,"exclusiveMaximum":2.5', ['1', '2'], ['0', '3']],
    ['"minimum":1,"exclusiveMinimum":true,"maximum":3', ['2', '3'], ['1', '4']],
    ['"minimum":-0.5,"maximum":0.5', ['0'], ['1', '-1']],
    ['"minimum":1e3,"maximum":1.2e3', ['1000', '1200'], ['999', '1201']],
    // JSON.stringify of -(2 ** 63) and of the largest int64.
    ['"minimum":-9223372036854776000,"maximum":9223372036854776000', ['9223372036854775807', '-9223372036854775808'], ['9223372036854775808', '-9223372036854775809']],
    [`"minimum":${2 ** 63 - 1024},"maximum":${2 ** 63 - 1024}`, [`${2n ** 63n - 1024n}`], [`${2n ** 63n - 1023n}`, '9223372036854775000']],
    ['"maximum":1e300', ['5', '-5'], []],
  ];
  for (const [keywords, yes, no] of cases) {
    const { language } = await compile(`{"type":"integer",${keywords}}`);
    for (const value of yes) t.ok(language.matches(value), `${value} by ${keywords}`);
    for (const value of no) t.notOk(language.matches(value), `${value} by ${keywords}`);
  }
});

t.test('numbers keep to their bounds', async (t) => {
  const bounds = [-20.25, -1.5, -1, -0.05, 0, 0.001, 0.5, 0.55, 1, 1.5, 2, 10, 20.25, 123.456];
  const values = [
    ...bounds,
    -20.3,
    -20.2,
    -1.51,
    -1.4,
    -0.5,
    -0.06,
    -0.04,
    0.0009,
    0.002,
    0.49,
    0.51,
    0.549,
    0.551,
    0.9,
    1.1,
    1.49,
    1.51,
    9.99,
    10.01,
    20.2,
    20.3,
    100,
    123.4,
    123.5,
  ];
  for (const low of bounds) {
    for (const high of bounds) {
      for (const [from, to] of [['minimum', 'maximum'], ['exclusiveMinimum', 'maximum'], ['minimum', 'exclusiveMaximum']] as const) {
        const text = JSON.stringify({ type: 'number', [from]: low, [to]: high });
        if (low > high || (low === high && (from !== 'minimum' || to !== 'maximum'))) {
          await t.rejects(addon.compileSchema(text), { code: 'invalid_schema' }, text);
          continue;
        }
        const { language } = await compile(text);
        for (const value of values) {
          const fits = (from === 'minimum' ? value >= low : value > low) && (to === 'maximum' ? value <= high : value < high);
          for (const written of [`${value}`, value.toFixed(6)]) {
            if (language.matches(written) !== fits) t.fail(`${written} by ${text}`);
          }
        }
      }
    }
  }
  t.pass('all of them');
});

t.test('patterns mean what they mean in JavaScript', async (t) => {
  const patterns = ['^\\d{3}-\\w+$', '^\\s*\\S+$', 'b', '^a', 'a$', '^[^a-c]+$', '^(a|b)*c?$', '^(?:ab){2,3}$', '^(?<first>a)b|c$', '^.$', '^[\\d_-]+$', '^\\u0061\\x62$', '^a{0}b$', '^["\\\\]+$', '^\\.\\*\\[\\]$', '^\\D$', '^[\\w-]+?$', '^$', '^\\$\\^$', '^ü+$', '^[à-ÿ]$', 'a|b', '^\\/x$', '^[a\\]b]+$', '^(ab|a)(c|bcd)$', '\\t', '^[\\s\\S]*$', '^\\u{1F600}?$', '^(a{2}){2}$'];
  const texts = ['', 'a', 'b', 'c', 'ab', 'abc', 'ac', 'abcd', 'abab', 'ababab', 'aaaa', 'abababab', '123-x_9', '12-x', 'a b', ' a', '\ta', 'a\nb', '"', '\\', '"\\"', '.*[]', '_-5', '$^', 'ü', 'üü', 'é', 'é!', '/x', 'a]b', '😀', '-', 'xbx', 'B', '٣'];
  for (const pattern of patterns) {
    const { language, unenforced } = await compile({ type: 'string', pattern });
    t.same(unenforced, [], pattern);
    const regex = new RegExp(pattern, 'u');
    for (const text of texts) t.equal(language.matches(JSON.stringify(text)), regex.test(text), `${JSON.stringify(text)} by ${pattern}`);
    t.notOk(language.matches('"a"b"'), 'no pattern ends a string early');
  }
  for (const pattern of ['(', 'a)', '[a', '*', 'a{3,1}', '[b-a]', '\\x1']) {
    await t.rejects(addon.compileSchema(JSON.stringify({ properties: { x: { type: 'string', pattern } } })), { code: 'invalid_schema', message: /#\/properties\/x\/pattern.*regular expression/ }, pattern);
  }
  for (const pattern of ['(?=a)b', '(?!a)b', '(?<=a)b', '(a)\\1', '\\bword', '\\p{L}', '^(^a)$', '(?i:a)']) t.same((await compile({ type: 'string', pattern })).unenforced, ['/pattern'], pattern);
});

const letters = (count: number) => 'x'.repeat(count);
const cases: Case[] = [
  { schema: { type: 'string', minLength: 2, maxLength: 4 }, yes: ['ab', 'abcd', '"\\"'], no: ['a', 'abcde', 5] },
  { schema: { type: 'string', minLength: 700, maxLength: 2600 }, yes: [letters(700), letters(1000), letters(1499), letters(2600)], no: [letters(699), letters(2601)] },
  { schema: { type: 'array', items: { type: 'null' }, minItems: 2, maxItems: 3 }, yes: [[null, null], [null, null, null]], no: [[], [null], [null, null, null, null]] },
  { schema: { type: 'array', prefixItems: [{ type: 'null' }, { type: 'boolean' }], items: { type: 'integer' }, maxItems: 4 }, yes: [[null, true], [null, true, 1, 2]], no: [[null], [null, true, null], [null, true, 1, 2, 3]] },
  { schema: { items: [{ type: 'null' }, { type: 'boolean' }] }, yes: [[null, true]], no: [[null], [null, true, 1]] },
  { schema: { type: 'array', items: false }, yes: [[]], no: [[1]] },
  { schema: { type: 'array', prefixItems: [], items: { type: 'integer' } }, yes: [[], [1], [1, 2]], no: [['a']] },
  { schema: { items: [], additionalItems: { type: 'integer' }, minItems: 2, maxItems: 3 }, yes: [[1, 2], [1, 2, 3]], no: [[], [1], [1, 2, 3, 4]] },
  { schema: { type: 'array', prefixItems: [], minItems: 1, maxItems: 1 }, yes: [[1]], no: [[], [1, 2]] },
  { schema: { type: 'array', prefixItems: [true, true], items: true, maxItems: 1 }, yes: [[1]], no: [[], [1, 2]] },
  { schema: { allOf: [{ prefixItems: [{ type: 'integer' }] }, { items: { type: 'string' } }] }, yes: [[1, 'a']], no: [[1, 2]], unenforced: ['/allOf/1/items'] },
  { schema: { allOf: [{ properties: { a: { type: 'integer' } } }, { additionalProperties: { type: 'string' } }] }, yes: [{ a: 1, b: 'x' }], no: [{ b: 1 }], unenforced: ['/allOf/1/additionalProperties'] },
  { schema: { allOf: [{ properties: { a: { type: 'integer' } } }, { additionalProperties: {} }] }, yes: [{ a: 1, b: 'x' }], no: [{ a: 'x' }] },
  { schema: { type: 'object', properties: { a: { type: 'null' }, b: { type: 'null' }, c: { type: 'null' } }, required: ['b'] }, yes: [{ b: null }, { b: null, a: null, c: null }, { b: null, c: null }], no: [{}, { a: null }, { b: null, d: null }] },
  { schema: { type: 'object', properties: { a: true, b: false } }, yes: [{}, { a: [1] }], no: [{ b: 1 }] },
  { schema: { type: 'object', properties: { a: false }, additionalProperties: { type: 'integer' } }, yes: [{ b: 1 }], no: [{ b: 'x' }], unenforced: ['/properties/a'] },
  { schema: { type: 'object', required: ['x'] }, yes: [{ x: 1 }, { x: null, y: 2 }], no: [{}] },
  { schema: { type: 'object', properties: { and: { type: 'null' }, also: { type: 'null' }, 'q"': { type: 'null' } }, additionalProperties: { type: 'integer' } }, yes: [{}, { and: null, x: 1 }, { an: 1 }, { ands: 2, a: 3 }, { q: 1 }, { 'q\\': 1 }, { 'é"': 4 }], no: [{ and: 1 }, { also: 2 }, { 'q"': 1 }, { x: null }] },
  { schema: { type: ['string', 'null'] }, yes: ['a', null], no: [1] },
  { schema: { type: 'string', enum: ['a', 5, null, 'b'] }, yes: ['a', 'b'], no: [5, null] },
  { schema: { minimum: 5 }, yes: [5, 7.5], no: [4, 4.9] },
  { schema: { $ref: '#/$defs/a~1b%20c', $defs: { 'a/b c': { type: 'null' } } }, yes: [null], no: [1] },
  { schema: { type: 'array', items: { $ref: '#' } }, yes: [[], [[], [[]]]], no: [1, [1]] },
  { schema: { $ref: '#/$defs/a', required: ['x'], $defs: { a: { type: 'object', properties: { x: { type: 'null' } } } } }, yes: [{ x: null }], no: [{}] },
  // A tree, as Pydantic 1 and OpenAPI 3.0 describe its children.
  { schema: tree({ title: 'Next', allOf: [{ $ref: '#/$defs/node' }] }), yes: [{ v: 1 }, { v: 1, next: { v: 2, next: { v: 3, next: { v: 4 } } } }], no: [{ v: 1, next: { v: 2, next: {} } }, { v: 1, next: { v: 2, next: { v: 3, next: 4 } } }] },
  { schema: tree({ $ref: '#/$defs/node', nullable: true }), yes: [{ v: 1, next: { v: 2, next: { v: 3 } } }], no: [{ v: 1, next: { v: 2, next: { v: 'x' } } }], unenforced: ['/$defs/node/properties/next/nullable'] },
  { schema: tree({ type: 'array', items: { $ref: '#/$defs/node', required: ['next'] } }), yes: [{ v: 1, next: [{ v: 2, next: [{ v: 3, next: [] }] }] }], no: [{ v: 1, next: [{ v: 2, next: [{ v: 3 }] }] }] },
  { schema: { allOf: [{ properties: { a: { allOf: [{ $ref: '#' }] } } }, { properties: { b: { type: 'null' } }, required: ['b'] }] }, yes: [{ b: null, a: { b: null, a: { b: null } } }], no: [{ b: null, a: { b: null, a: {} } }] },
  { schema: { allOf: [{ $ref: '#/$defs/a' }], description: 'only that', $defs: { a: { enum: [1, 2] } } }, yes: [1, 2], no: [3, {}] },
  { schema: { allOf: [{ type: 'string', minLength: 2 }, { maxLength: 3, minLength: 1 }] }, yes: ['ab', 'abc'], no: ['a', 'abcd'] },
  { schema: { type: 'object', properties: { a: { type: 'null' } }, allOf: [{ properties: { b: { type: 'integer', minimum: 1 } }, required: ['a', 'b'] }, { properties: { b: { maximum: 3 } } }] }, yes: [{ a: null, b: 2 }], no: [{ a: null, b: 5 }, { a: null }] },
  { schema: { type: 'object', properties: { a: { type: 'null' }, b: { type: 'null' } }, anyOf: [{ required: ['a'] }, { required: ['b'] }] }, yes: [{ a: null }, { b: null }, { a: null, b: null }], no: [{}] },
  { schema: { type: 'object', properties: { a: { type: 'null' }, b: { type: 'null' } }, anyOf: [{ required: ['a'], properties: { b: false } }, { required: ['b'], properties: { a: false } }] }, yes: [{ a: null }, { b: null }], no: [{}, { a: null, b: null }] },
  // An alternative that no value can match beside the rest.
  { schema: { type: 'object', properties: { a: { type: 'null' } }, required: ['a'], anyOf: [{ properties: { a: {} } }, { type: 'null' }] }, yes: [{ a: null }], no: [null, {}] },
  { schema: { type: 'string', anyOf: [{ type: 'null' }, { enum: ['a'] }] }, yes: ['a'], no: [null, 'b'] },
  { schema: { enum: ['a', 'b'], oneOf: [{ enum: ['c'] }, { enum: ['b', 'c'] }] }, yes: ['b'], no: ['a', 'c'] },
  { schema: { allOf: [{ enum: [1, 2, 3] }, { enum: [2, 3, 4] }] }, yes: [2, 3], no: [1, 4] },
  { schema: { type: 'integer', multipleOf: 7 }, yes: [0, 7, 49, -21, 700], no: [1, 8, 48] },
  { schema: { type: 'number', multipleOf: 0.01 }, yes: [1.25, 3, -0.5], no: [1.255] },
  { schema: { type: 'string', format: 'email' }, yes: ['a.b@example.org'], no: ['a@b', 'x', '@x.org'] },
  { schema: { type: 'string', format: 'ipv4' }, yes: ['127.0.0.1', '255.249.99.0'], no: ['256.1.1.1', '1.2.3'] },
  { schema: { type: 'string', format: 'date-time' }, yes: ['2024-01-31T10:20:30Z'], no: ['yesterday'] },
  { schema: { oneOf: [{ type: 'object', properties: { kind: { const: 'a' } }, required: ['kind'] }, { type: 'object', properties: { kind: { const: 'b' } }, required: ['kind'] }] }, yes: [{ kind: 'a' }, { kind: 'b' }], no: [{ kind: 'c' }] },
  { schema: { type: 'object', properties: {}, maxProperties: 3, minProperties: 0, title: 'x', 'x-order': 1 }, yes: [{}], no: [{ a: 1 }] },
  { schema: { type: 'array', items: { type: 'null' }, uniqueItems: true }, yes: [[null]], no: [[1]], unenforced: ['/uniqueItems'] },
  { schema: { oneOf: [{ type: 'string' }, { type: 'string', maxLength: 3 }] }, yes: ['a'], no: [1], unenforced: ['/oneOf'] },
  { schema: { properties: { 'a/b': { type: 'integer', multipleOf: 2.5, minLength: 3 } } }, yes: [{ 'a/b': 1 }], no: [], unenforced: ['/properties/a~1b/multipleOf'] },
  { schema: { type: 'string', not: { const: 'x' }, maxLenght: 3 }, yes: ['x'], no: [], unenforced: ['/not', '/maxLenght'] },
  { schema: { type: 'string', pattern: '^a+$', maxLength: 3 }, yes: ['a', 'aaa'], no: ['', 'b', 'aaaa'] },
  { schema: { type: 'string', pattern: '^[a-z][a-z0-9_]*$', minLength: 3, maxLength: 5 }, yes: ['abc', 'a_12b'], no: ['ab', '1bc', 'abcdef'] },
  { schema: { type: 'string', pattern: '^(ab){2,}-$', minLength: 6, maxLength: 8 }, yes: ['ababab-'], no: ['abab-', 'abababab-'] },
  { schema: { type: 'string', pattern: '^x|y$', minLength: 2, maxLength: 3 }, yes: ['xa', 'x"ü', 'ay', 'aay'], no: ['x', 'y', 'xaaa', 'aaay'] },
  { schema: { type: 'string', pattern: '^[A-Z]{2}\\d{4}$', minLength: 1, maxLength: 6 }, yes: ['AB1234'], no: ['AB123'] },
  { schema: { type: 'string', pattern: '^\\S+$', minLength: 2000 }, yes: ['x'.repeat(2000)], no: ['x'.repeat(1999)] },
  { schema: { type: 'string', format: 'ipv4', maxLength: 15 }, yes: ['127.0.0.1'], no: ['x'] },
  { schema: { type: 'string', pattern: '^a+b+$', maxLength: 3 }, yes: ['aab'], no: ['b'], unenforced: ['/maxLength'] },
  { schema: { type: 'string', pattern: '^a+$|^b*c*$', minLength: 1, maxLength: 3 }, yes: ['aaa', 'bc'], no: ['aaaa'], unenforced: ['/maxLength', '/minLength'] },
  { schema: { type: 'string', pattern: '^a{4}$|^b+$', maxLength: 3 }, yes: ['bbb'], no: ['bbbb'], unenforced: ['/maxLength'] },
  { schema: { type: 'string', pattern: '^a{2,3}$', minLength: 5 }, yes: ['aa'], no: ['a'], unenforced: ['/minLength'] },
  { schema: { type: 'string', format: 'uuid', pattern: '^[0-9]{3}$' }, yes: ['123'], no: ['12', 'abc'] },
  { schema: { type: 'string', format: 'password' }, yes: ['x'], no: [1] },
  { schema: { type: 'object', propertyNames: { type: 'string' }, additionalProperties: { type: 'integer' }, propertyOrdering: ['b', 'a'] }, yes: [{ a: 1 }], no: [{ a: 'x' }] },
  { schema: { type: 'string', format: 'iri' }, yes: ['x'], no: [1], unenforced: ['/format'] },
  { schema: { type: 'object', patternProperties: { '^a': {} }, minProperties: 1, propertyNames: { maxLength: 3 }, dependentRequired: { a: ['b'] }, if: {} }, yes: [{}], no: [], unenforced: ['/if', '/minProperties', '/patternProperties', '/propertyNames', '/dependentRequired'] },
  { schema: { type: 'array', contains: { type: 'null' } }, yes: [[]], no: [], unenforced: ['/contains'] },
];

t.test('keywords are enforced, or listed', async (t) => {
  for (const { schema, yes, no, unenforced = [] } of cases) {
    const made = await compile(schema);
    for (const value of yes) t.ok(made.language.matches(JSON.stringify(value)), `${JSON.stringify(value).slice(0, 60)} by ${JSON.stringify(schema)}`);
    for (const value of no) t.notOk(made.language.matches(JSON.stringify(value)), `${JSON.stringify(value).slice(0, 60)} not by ${JSON.stringify(schema)}`);
    t.same(made.unenforced.sort(), [...unenforced].sort(), JSON.stringify(schema));
  }
});

t.test('an unsatisfiable schema is refused, with the place', async (t) => {
  const refused: [object, RegExp][] = [
    [{ properties: { a: { type: 'string', minLength: 5, maxLength: 3 } } }, /#\/properties\/a\/minLength.*minLength is 5 and maxLength is 3/],
    [{ type: 'array', minItems: 2, maxItems: 1 }, /#\/minItems/],
    [{ type: 'array', prefixItems: [true], items: false, minItems: 2 }, /#\/minItems.*no more items/],
    [{ type: 'nonsense' }, /#\/type.*"nonsense"/],
    [{ items: { $ref: '#/$defs/none' } }, /#\/items\/\$ref.*nothing at/],
    [{ $ref: 'https://example.org/x' }, /#\/\$ref/],
    [{ enum: [] }, /#\/enum/],
    [{ type: 'string', enum: [1] }, /#\/enum/],
    [{ anyOf: [{ $ref: '#' }, { type: 'null' }] }, /circle/],
    [{ $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }, /circle/],
    [{ allOf: [{ type: 'string' }, { type: 'null' }] }, /types/],
    [{ properties: { x: false }, required: ['x'] }, /#\/properties\/x/],
    [{ type: 'object', properties: {}, additionalProperties: false, required: ['x'] }, /#\/required/],
    [{ items: 5 }, /#\/items.*an object, got 5/],
    [{ type: 'number', multipleOf: 0 }, /#\/multipleOf/],
  ];
  for (const [schema, message] of refused) await t.rejects(addon.compileSchema(JSON.stringify(schema)), { code: 'invalid_schema', message }, JSON.stringify(schema));
});

t.test('hostile schemas end in a bounded number of steps, beside a plain chat', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  for (const [name, schema] of Object.entries(hostileSchemas)) {
    const text = typeof schema === 'string' ? schema : JSON.stringify(schema);
    const tools = `[{"type":"function","function":{"name":"f","description":"d","parameters":${text}}}]`;
    const outcomes = await Promise.all([
      ...[addon.compileSchema(text), chatPrompt(model, 'Hi', { jsonSchema: text }), chatPrompt(model, 'Hi', { tools, toolChoice: 'required' })]
        .map((work: Promise<unknown>) => work.then(() => 'made', ({ code }: { code: string }) => code)),
      chatPrompt(model, 'Hi').then(({ prompt }) => (/Hi/.test(prompt) ? 'answered' : prompt)),
    ]);
    t.equal(outcomes.pop(), 'answered', name);
    for (const outcome of outcomes) t.match(outcome, /^(made|invalid_schema)$/, name);
  }
});

t.test('references among items beyond the most end no process', async (t) => {
  const schema = JSON.stringify({ type: 'array', prefixItems: Array.from({ length: 50 }, () => ({ $ref: '#/$defs/a' })), maxItems: 1, $defs: { a: { type: 'null' } } });
  for (let i = 0; i < 200; i++) await addon.compileSchema(schema);
  const { language } = await compile(schema);
  t.ok(language.matches('[null]'));
  t.notOk(language.matches('[null,null]'));
});

t.test('what a template lets calls write is listed if the schema does not allow it', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const parameters = { type: 'object', properties: { unit: { enum: ['C', 'F'] }, city: { type: 'string' }, days: { type: 'integer', minimum: 1 } } };
  const tools = JSON.stringify([{ type: 'function', function: { name: 'weather', description: 'x', parameters } }]);
  const lost = async (name: string, given = tools) => {
    const template = readFileSync(new URL(`../../../vendor/llama.cpp/models/templates/${name}.jinja`, import.meta.url), 'utf8');
    return (await chatPrompt(model, 'Hi', { tools: given, template })).unenforced.map(({ pointer, tool }) => `${tool} ${pointer}`);
  };
  t.same(await lost('Qwen3-Coder'), ['0 /properties/unit']);
  t.same(await lost('NousResearch-Hermes-3-Llama-3.1-8B-tool_use'), []);

  const closed = JSON.stringify([{ type: 'function', function: { name: 'weather', description: 'x', parameters: { ...parameters, required: ['city'], additionalProperties: false } } }]);
  t.same(await lost('Qwen3-Coder', closed), ['0 /properties/unit']);
  t.same(await lost('openbmb-MiniCPM5-1B', closed), ['0 /properties/unit', '0 /required']);
  t.same(await lost('Kimi-K3', closed), ['0 /properties/unit', '0 /properties/city', '0 /properties/days', '0 /required']);
  t.same(await lost('google-gemma-4-31B-it', closed), ['0 /properties/unit', '0 /properties/city', '0 /properties/days', '0 /required', '0 /additionalProperties']);
  t.same(await lost('Kimi-K3', JSON.stringify([{ type: 'function', function: { name: 'weather', description: 'x', parameters: { type: 'object', properties: {} } } }])), []);
});

t.test('a property may have any name: that of the outermost rule, none, or a very long one', async (t) => {
  for (const name of ['root', 'root0', '', 'string', 'value', 'space', 'root-part', `${'x'.repeat(66)}y`, 'n'.repeat(300)]) {
    for (const value of [{ type: 'integer', multipleOf: 7 }, { type: 'object', properties: { [name]: { type: 'boolean' } }, required: [name], additionalProperties: false }]) {
      const { language } = await compile({ type: 'object', properties: { [name]: value }, required: [name], additionalProperties: false });
      const inner = value.type === 'integer' ? 21 : { [name]: true };
      t.ok(language.matches(JSON.stringify({ [name]: inner })), name);
      t.notOk(language.matches(JSON.stringify(inner)), `${name}: not the property's value alone`);
      t.notOk(language.matches(JSON.stringify({ [name]: value.type === 'integer' ? 22 : 1 })), `${name}: not another value`);
    }
  }
});

t.test('properties whose names differ only in characters that rules cannot have stay apart', async (t) => {
  const properties = { max_x: { type: 'integer' }, 'max-x': { type: 'boolean' }, 'max+x': { type: 'null' }, 城市: { enum: ['a'] }, 日期: { enum: ['b'] } };
  const { language } = await compile({ type: 'object', properties, required: Object.keys(properties), additionalProperties: false });
  t.ok(language.matches('{"max_x":1,"max-x":true,"max+x":null,"城市":"a","日期":"b"}'));
  t.notOk(language.matches('{"max_x":1,"max-x":1,"max+x":null,"城市":"a","日期":"b"}'));
  t.notOk(language.matches('{"max_x":1,"max-x":true,"max+x":null,"城市":"b","日期":"b"}'));
});
