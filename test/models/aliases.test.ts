import t from 'tap';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { addAlias, checkAlias, readAliases, removeAliases } from '#recua/models/aliases.js';

function placesIn(state: string) {
  return { hub: state, sessions: state, state, tokenFile: state };
}
const target = { repo: 'o/r', file: 'a.gguf' };

t.test('checkAlias() refuses names that could mean something else', (t) => {
  for (const name of ['', '.', '..', 'a/b', 'a\\b', '/a', '~a', 'a:b', 'a b', '-a', '.a', '_a', 'a\n', 'a\0', 'builtin', 'Default', 'BUILTIN', 'a.gguf', 'x'.repeat(65), '__proto__']) {
    t.throws(() => checkAlias(name), { code: 'invalid_name' }, JSON.stringify(name));
  }
  for (const name of ['tiny', 'a', '7b', 'llama-3.1_8B', 'ñandú', '日本']) t.equal(checkAlias(name), name);
  t.end();
});

t.test('an alias is kept, moved only by force, and removed', async (t) => {
  const places = placesIn(join(t.testdir(), 'state'));
  t.equal((await readAliases(places)).size, 0);
  await addAlias(places, 'tiny', target, false);
  await addAlias(places, 'tiny', target, false);
  await t.rejects(addAlias(places, 'tiny', { repo: 'o/r', file: 'b.gguf' }, false), { code: 'alias_taken', message: /names o\/r\/a\.gguf already.*--force/ });
  t.strictSame((await readAliases(places)).get('tiny'), target);
  await addAlias(places, 'tiny', { repo: 'o/r', file: 'b.gguf' }, true);
  t.equal((await readAliases(places)).get('tiny')?.file, 'b.gguf');
  t.strictSame(await removeAliases(places, (name) => name === 'tiny'), ['tiny']);
  t.strictSame(await removeAliases(places, (name) => name === 'tiny'), []);
  t.equal((await readAliases(places)).size, 0);
});

t.test('of several imports of a model at once, one alias stands for it', async (t) => {
  const places = placesIn(t.testdir());
  await Promise.all(['a', 'b', 'c'].map((name) => addAlias(places, name, target, false)));
  t.equal([...(await readAliases(places)).values()].filter(({ adopted }) => !adopted).length, 1);
  await addAlias(places, 'other', { repo: 'o/r', file: 'b.gguf' }, false);
  t.notOk((await readAliases(places)).get('other')!.adopted);
});

t.test('fields of a newer version stay in the file', async (t) => {
  const folder = t.testdir({ 'aliases.json': JSON.stringify({ format: 2, aliases: { old: { ...target, since: '2030' } } }) });
  await addAlias(placesIn(folder), 'new', { repo: 'o/r', file: 'b.gguf' }, false);
  t.strictSame(JSON.parse(readFileSync(join(folder, 'aliases.json'), 'utf8')), {
    format: 2, aliases: { new: { repo: 'o/r', file: 'b.gguf' }, old: { ...target, since: '2030' } },
  });
});

t.test('an invalid aliases file is not overwritten', async (t) => {
  const folder = t.testdir();
  for (const text of ['', '{', '[]', '{"aliases":[]}', '{"aliases":{"a":{"repo":1}}}', 'null']) {
    writeFileSync(join(folder, 'aliases.json'), text);
    await t.rejects(readAliases(placesIn(folder)), { code: 'file_unreadable', message: /Fix the file or delete it/ }, text);
    await t.rejects(addAlias(placesIn(folder), 'a', target, true), { code: 'file_unreadable' }, text);
  }
});

t.test('of aliases added by ten processes at once none is lost', async (t) => {
  const folder = t.testdir();
  const names = Array.from({ length: 10 }, (_, i) => `model-${i}`);
  const codes = await Promise.all(names.map(async (name) => {
    const child = fork(fileURLToPath(new URL('./alias-writer.js', import.meta.url)), [folder, name], { stdio: 'inherit', execArgv: [] });
    t.teardown(() => child.kill('SIGKILL'));
    return (await once(child, 'exit'))[0] as number;
  }));
  t.strictSame(codes, names.map(() => 0));
  t.strictSame([...(await readAliases(placesIn(folder))).keys()].sort(), names);
  t.strictSame(readdirSync(folder), ['aliases.json'], 'no lock and no draft is left');
});
