import t, { type Test } from 'tap';
import { join } from 'node:path';
import { readModelsFile } from '#recua/cli/flags/models-file.js';

const read = (t: Test, content: unknown) => {
  const folder = t.testdir({ 'models.json': typeof content === 'string' ? content : JSON.stringify(content), 'own.jinja': '{{ messages }}' });
  return readModelsFile(join(folder, 'models.json'));
};

t.test('the first model of a file is the default, unless the file says otherwise', async (t) => {
  const models = { embed: { model: 'e.gguf' }, chat: { model: 'c.gguf' } };
  t.equal((await read(t, { models })).default, 'embed');
  t.equal((await read(t, { default: 'chat', models })).default, 'chat');
});

t.test('a models file gives each model its names and settings', async (t) => {
  const { models, default: first, folder } = await read(t, {
    default: 'chat',
    models: {
      chat: {
        model: 'chat.gguf', aliases: ['gpt-4'], context: 8192, parallel: 2, gpuLayers: 'auto', template: 'own.jinja', pooling: 'mean', flashAttention: 'off', mmap: false,
        temperature: 0.2, maxTokens: 64, topK: 5, minP: 0, keepAlive: -1, pinned: true, group: 'large',
      },
      embed: { model: 'owner/embed:Q8_0' },
    },
  });
  t.equal(first, 'chat');
  t.equal(folder, t.testdirName);
  t.same([...models], [
    ['chat', {
      model: 'chat.gguf', aliases: ['gpt-4'], pinned: true, group: 'large', templatePath: join(t.testdirName, 'own.jinja'),
      config: { gpuLayers: 'auto', flashAttention: 'off', mmap: false, pooling: 'mean', parallel: 2, contextSize: 8192, keepAliveMs: -1_000 },
      defaults: { temperature: 0.2, maxTokens: 64, sampling: { topK: 5, minP: 0 } },
    }],
    ['embed', { model: 'owner/embed:Q8_0', aliases: [], pinned: false, config: {}, defaults: { sampling: {} } }],
  ]);
});

t.test('errors of a models file are reported with their place', async (t) => {
  const one = (settings: object) => ({ models: { chat: { model: 'x', ...settings } } });
  const cases: [unknown, RegExp][] = [
    ['{', /is not valid JSON/], [[], /expected an object, got \[\]/], [{}, /key "models": expected an object, got nothing/],
    [{ models: {} }, /at least one model/], [{ models: { chat: 'x' } }, /model "chat": expected an object, got "x"/],
    [{ models: { chat: {} } }, /model "chat", key "model": expected the path of a GGUF file.*got nothing/],
    [{ ...one({}), models2: 1 }, /no key "models2"\. Did you mean models\?/], [one({ ctx: 1 }), /model "chat": there is no key "ctx"/],
    [one({ contxt: 1 }), /Did you mean context\?/], [one({ 'ctx-size': 1 }), /no key "ctx-size"\. Did you mean context\?/], [one({ contextSize: 1 }), /Did you mean context\?/],
    [one({ '-ngl': 1 }), /Did you mean gpuLayers\?/], [one({ 'ctx-szie': 1 }), /Did you mean context\?/], [one({ top_k: 1 }), /Did you mean topK\?/], [one({ 'no-mmap': true }), /Did you mean mmap\?/],
    [one({ 'queue-timeout': 1 }), /Did you mean queueTimeoutMs\?/], [one({ 'keep-alive': 1 }), /Did you mean keepAlive\?/], [one({ 'chat-template-file': 'a' }), /Did you mean template\?/], [one({ colour: 1 }), /no key "colour"\. There are model, /], [one({ context: 'much' }), /model "chat": Expected an integer for context, got "much"/], [one({ context: -1 }), /for context, got -1/],
    [one({ parallel: 0 }), /from 1 to 256 for parallel, got 0/], [one({ pooling: 'best' }), /"rank".*for pooling/], [one({ pinned: 1 }), /true or false, got 1/],
    [one({ mmap: 'no' }), /for mmap/], [one({ topK: 'x' }), /model "chat": Expected an integer for topK/],
    [one({ keepAlive: -2 }), /from -1 to .* for keepAlive, got -2/], [one({ aliases: 'gpt-4' }), /a list of names/], [one({ aliases: [''] }), /1 to 200 characters/], [one({ group: 7 }), /key "group": expected a name of 1 to 200 characters.*, got 7/],
    [{ models: { a: { model: 'x', pinned: true, group: 'g' }, b: { model: 'x', pinned: true, group: 'g' } } }, /one pinned model at most in the group "g", got a and b/],
    [one({ aliases: ['Chat'] }), /each name once, got "Chat" for chat and for chat/], [one({ aliases: ['default'] }), /"default", which means the default model/],
    [{ ...one({}), default: 'other' }, /key "default": expected one of chat, got "other"/],
  ];
  for (const [content, message] of cases) await t.rejects(read(t, content), { code: 'invalid_config', message }, String(message));
  await t.rejects(readModelsFile(join(t.testdir(), 'none.json')), { code: 'file_unreadable' });
});

t.test('of the config file only its models are read, and paths start at its folder', async (t) => {
  const path = join(t.testdir({ 'config.json': JSON.stringify({ port: 9000, models: { chat: { model: 'c.gguf' }, embed: { model: 'e.gguf' } } }) }), 'config.json');
  t.match(await readModelsFile(path, path), { isConfig: true, default: 'chat', folder: t.testdirName });
  await t.rejects(readModelsFile(path, '/elsewhere'), { code: 'invalid_config', message: /no key "port"/ });
});
