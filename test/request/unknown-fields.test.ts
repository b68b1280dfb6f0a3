import t from 'tap';
import { Fields } from '#recua/request/fields.js';
import { checkUnknown } from '#recua/request/unknown-fields.js';

const known = ['max_tokens', 'temperature', 'top_p', 'top_k', 'typical_p', 'seed', 'model', 'messages', 'n', 'stop', 'stream'];

/** Reads fields as a body reader does. */
function read(body: object): string[] {
  const fields = Fields.of(body);
  for (const name of known) fields.get(name);
  fields.fields('options')?.integer('num_predict', {});
  fields.allow('user');
  return checkUnknown(fields);
}

t.test('a field that nearly has a known name is refused, with that name', async (t) => {
  const slips: [object, param: string, meant: string][] = [
    [{ max_token: 5 }, 'max_token', 'max_tokens'], [{ temprature: 1 }, 'temprature', 'temperature'], [{ temperatrue: 1 }, 'temperatrue', 'temperature'],
    [{ maxTokens: 5 }, 'maxTokens', 'max_tokens'], [{ 'top-k': 5 }, 'top-k', 'top_k'], [{ message: [] }, 'message', 'messages'],
    [{ streem: true }, 'streem', 'stream'], [{ options: { num_predct: 5 } }, 'options.num_predct', 'options.num_predict'],
  ];
  for (const [body, param, meant] of slips) {
    t.throws(() => read(body), { code: 'unknown_parameter', status: 400, param, message: `${param} is not a field of this request; did you mean ${meant}?` }, param);
  }
});

t.test('fields that other servers know, or nobody, are reported in one warning', async (t) => {
  t.strictSame(read({ user: 'x', seed: 1, temperature: null, tempratur: null }), [], 'all is known, or says nothing');
  t.strictSame(read({ top_a: 1, nonsense: [], options: { nothing: 1 } }), ['Not fields of this request, and ignored: "top_a", "nonsense", "options.nothing".']);
  t.strictSame(read({ models: ['a'], typical: 1, top_n: 2 }).length, 1);
  t.strictSame(read({ message_id: 'x', stream_id: 1, models_ids: [] }).length, 1, 'a word more is no slip');
  t.strictSame(read({ seeds: 1, mode: 'x' }).length, 1, 'short names are too near each other');
  const many = Object.fromEntries(Array.from({ length: 200_000 }, (_, index) => [`field-${index}`, index]));
  let looks = 0;
  const watched = new Proxy(many, { get: (of, name) => (looks++, of[name as string]) });
  t.match(read(watched), [/"field-7" and at least 92 more\.$/]);
  t.ok(looks < 200, `${looks} of 200,000 values are looked at`);
  t.notMatch(read({ ['x'.repeat(5_000)]: 1 }).join(), /x{65}/);
});
