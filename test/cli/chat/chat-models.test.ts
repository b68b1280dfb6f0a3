import t from 'tap';
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gguf, sound } from '../../models/gguf-bytes.js';
import { put } from '../../models/hub-layout.js';
import { ChatModels } from '#recua/cli/chat/chat-models.js';
import type { Answerer } from '#recua/cli/answering/answerer.js';
import { makeRequest } from '#recua/cli/flags/answer-flags.js';
import { builtinPath } from '#recua/models/store.js';

const { signal } = new AbortController();
const request = makeRequest([{ role: 'user', content: 'Hello' }], {
  maxTokens: 3, temperature: 0, topP: 1, topK: 0, minP: 0, repeatPenalty: 1, seed: 1,
}, { kind: 'grammar', grammar: 'root ::= "Yes."' });

async function answerOf(answerer: Answerer): Promise<string> {
  let text = '';
  for await (const { content } of answerer.chat(request, signal)) text += content ?? '';
  return text;
}

function open(t: { teardown(end: () => Promise<void>): void }, hasRoom: boolean): ChatModels {
  const models = new ChatModels({
    config: { threads: 1 }, choosesContext: true, open: { own: true, quiet: true, chats: true, settings: {} },
  }, () => hasRoom);
  t.teardown(() => models.close());
  return models;
}

for (const hasRoom of [true, false]) {
  t.test(`a switch ${hasRoom ? 'with room for both models' : 'where the old one has to leave first'}`, async (t) => {
    const folder = t.testdir({ 'bad.gguf': gguf(sound) });
    const twin = join(folder, 'twin.gguf');
    copyFileSync(builtinPath, twin);
    const models = open(t, hasRoom);
    const first = await models.open(await models.read('builtin', true, signal), true, signal);
    await t.rejects(models.switchTo(join(folder, 'bad.gguf'), true, signal), { code: 'model_unusable' });
    t.equal(models.current.name, 'builtin');
    t.equal(models.current === first, hasRoom, hasRoom ? 'the old one stayed' : 'the old one came back');
    t.equal(await answerOf(models.current), 'Yes.');
    t.equal(await models.switchTo('builtin', true, signal), undefined, 'it answers already');
    const before = models.current;
    const second = await models.switchTo(twin, true, signal);
    t.equal(second, models.current);
    t.match(second, { name: twin, id: 'twin' });
    t.equal(await answerOf(models.current), 'Yes.');
    await t.rejects(answerOf(before), { code: 'shutting_down' }, 'its process has ended');
    const gone = join(folder, 'none.gguf');
    await t.rejects(models.switchTo(gone, true, signal), { code: 'model_not_found' });
    t.equal(models.current, second);
  });
}

t.test('a cancelled switch leaves the old model', async (t) => {
  const twin = join(t.testdir(), 'twin.gguf');
  copyFileSync(builtinPath, twin);
  const models = open(t, false);
  await models.open(await models.read('builtin', true, signal), true, signal);
  await t.rejects(models.switchTo(twin, true, AbortSignal.abort()), { code: 'cancelled' });
  t.equal(await answerOf(models.current), 'Yes.');
});

t.test('an engine that is gone for good is replaced before the next turn', async (t) => {
  const models = open(t, true);
  const first = await models.open(await models.read('builtin', true, signal), true, signal);
  t.equal(await models.ensure(true, signal), undefined);
  models.lose();
  const next = await models.ensure(false, signal);
  t.not(next, first);
  t.equal(next, models.current);
  t.equal(await answerOf(models.current), 'Yes.');
});

t.test('a saved chat keeps the name of a model of the store, also beside a folder or a file called like it', async (t) => {
  const bytes = readFileSync(builtinPath);
  const folder = t.testdir({ hub: {}, a: { b: {}, 'b.gguf': bytes }, 'twin.gguf': bytes });
  put(join(folder, 'hub'), { repo: 'a/b', file: 'm.gguf', bytes });
  const { env: { HUB_HOME: hub } } = process;
  const cwd = process.cwd();
  process.env['HUB_HOME'] = join(folder, 'hub');
  process.chdir(folder);
  t.teardown(() => {
    process.chdir(cwd);
    if (hub === undefined) delete process.env['HUB_HOME'];
    else process.env['HUB_HOME'] = hub;
  });
  const models = open(t, true);
  const kept = async (name: string) => (await models.read(name, true, new AbortController().signal)).name;
  t.equal(await kept('a/b'), 'a/b');
  t.equal(await kept('builtin'), 'builtin');
  t.equal(await kept('a/b.gguf'), join(folder, 'a', 'b.gguf'));
  t.equal(await kept('twin'), join(folder, 'twin.gguf'));
});
