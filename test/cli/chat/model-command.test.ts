// /model: another model for the rest of a conversation.
import t from 'tap';
import { join } from 'node:path';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { Test } from 'tap';
import { builtinPath } from '#recua/models/store.js';
import { serveHome } from '../answering/servers.js';
import { makeHome } from '../home.js';
import type { Home } from '../home.js';
import { recua } from '../recua.js';
import { always, readSaved, sessionFiles, startChat } from './chats.js';

/** A home whose store has a model `tiny`. */
async function homeWithTiny(t: Test): Promise<Home> {
  const home = makeHome(t);
  mkdirSync(join(home.folder, 'mine'));
  const path = join(home.folder, 'mine', 'tiny.gguf');
  copyFileSync(builtinPath, path);
  t.match(await recua(['import', path, '--alias', 'tiny'], '', { env: home.env }), { code: 0 });
  return home;
}

function open(t: Test, home: Home, args: readonly string[]): ReturnType<typeof startChat> {
  return startChat(t, args, { columns: 120, home: home.env['SERVICE_HOME']!, env: home.env });
}

const modelOf = (folder: string) => (JSON.parse(readFileSync(join(folder, 'sessions', sessionFiles(folder)[0]!), 'utf8')) as { model: string }).model;

t.test('/model switches to another model, and a failed switch leaves the old one answering', async (t) => {
  const home = await homeWithTiny(t);
  const damaged = join(home.folder, 'damaged.gguf');
  writeFileSync(damaged, 'GGUF');
  const chat = open(t, home, ['builtin', '--threads', '1', ...always('Yes.')]);
  await chat.prompt();
  t.match(await chat.say('/model'), /^builtin answers\. The context holds 4096 tokens\.\nModels: local\/tiny, builtin, tiny\.$/m);
  await chat.say('First');
  t.match(await chat.say('/model tinny'), /There is no model tinny[^]*Did you mean tiny\?[^]*\/model\s+lists\s+the\s+models\s+that\s+are\s+here\./);
  t.match(await chat.say(`/model ${damaged}`), /recua: .*damaged\.gguf/);
  t.match(await chat.say('/model builtin'), /builtin answers now\./, 'it does already');
  await chat.say('Second');
  t.equal(modelOf(chat.home), 'builtin');
  chat.type('/model ti\t');
  await chat.until(() => chat.cursor().line === '> /model tiny', 'the completed name');
  chat.type('\r');
  await chat.until(/tiny answers now\./);
  await chat.prompt();
  t.equal(modelOf(chat.home), 'tiny', 'the saved chat has it at once');
  await chat.say('Third');
  t.same(readSaved(chat.home).messages.map(({ content }) => content), ['First', 'Yes.', 'Second', 'Yes.', 'Third', 'Yes.']);
  t.match(await chat.say('/tokens'), /Prompt +\d+ tokens, 0 of them cached/, 'it had read nothing of it');
  t.equal(await chat.leave(), 0);
  const resumed = open(t, home, ['--continue', '--threads', '1']);
  await resumed.prompt();
  t.match(resumed.text(), /^tiny: llama/m);
  t.equal(await resumed.leave(), 0);
});

t.test('/model loads the other model on a server that has it', async (t) => {
  const home = await serveHome(t, ['--parallel', '1'], await homeWithTiny(t));
  const loaded = await fetch(`${home.url}/models/load`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"model":"builtin"}' });
  t.equal(loaded.status, 200);
  const chat = open(t, home, ['builtin', ...always('Yes.')]);
  await chat.prompt();
  t.match(chat.text(), new RegExp(`The running server ${home.url} answers`));
  await chat.say('First');
  t.ok((await chat.say('/model tiny')).includes(`tiny answers now, on the running server ${home.url}.`), chat.text());
  await chat.say('Second');
  t.ok((await chat.say('/model')).includes(`tiny answers, on the running server ${home.url}. The context holds 4096 tokens.\nModels: `), chat.text());
  t.equal(await chat.leave(), 0);
  t.equal(await home.requests(), 2);
  const { data } = await (await fetch(`${home.url}/v1/models`)).json() as { data: { id: string; status: { value: string } }[] };
  t.equal(data.find(({ id }) => id === 'local/tiny')?.status.value, 'loaded');
});
