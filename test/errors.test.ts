import { readFileSync } from 'node:fs';
import t from 'tap';
import { errorTable, RecuaError, type ErrorCode } from '#recua/errors.js';

const page = readFileSync(new URL('../docs/errors.md', import.meta.url), 'utf8');
const rows = [...page.matchAll(/^\| `(\w+)` \| (\d+) \| `(\w+)` \| (.+) \|$/gm)]
  .map(([, code, status, type, meaning]) => ({ code, status: Number(status), type, meaning }));

t.test('docs/errors.md matches the table, in both directions', async (t) => {
  t.same(rows, Object.entries(errorTable).map(([code, row]) => ({ code, status: row.status, type: row.type, meaning: row.meaning })));
});

t.test('codes are lower_snake and meanings are sentences', async (t) => {
  for (const [code, { meaning }] of Object.entries(errorTable)) {
    t.match(code, /^[a-z]+(_[a-z]+)*$/);
    t.match(meaning, /^[A-Z].*\.$/, code);
  }
});

t.test('only server_error and unavailable_error have a 5xx status', async (t) => {
  for (const [code, { status, type }] of Object.entries(errorTable)) {
    t.equal(status >= 500, type === 'server_error' || (type === 'unavailable_error' && status !== 429), code);
  }
});

t.test('an error survives the trip between processes', async (t) => {
  const error = new RecuaError('context_length_exceeded', 'Too long.', { param: 'messages', details: { n_ctx: 8 } });
  const again = RecuaError.fromPlain(structuredClone(error.toPlain()));
  t.match(again, { code: error.code, message: error.message, status: 400, param: 'messages', details: { n_ctx: 8 } });
});

t.test('RecuaError.from() keeps coded errors and turns all others into internal_error', async (t) => {
  const coded = Object.assign(new Error('native'), { code: 'invalid_grammar' satisfies ErrorCode });
  t.match(RecuaError.from(coded), { code: 'invalid_grammar', status: 400, message: 'native' });
  for (const other of [new Error('x'), Object.assign(new Error('x'), { code: 'ENOENT' }), Object.assign(new Error('x'), { code: 'toString' }), 'text', null, undefined]) {
    t.equal(RecuaError.from(other).code, 'internal_error');
  }
});
