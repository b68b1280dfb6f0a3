// /set and /show, as users of Ollama type them.
import t from 'tap';
import { join } from 'node:path';
import { samplerSettings } from '#recua/settings/answer.js';
import { parameters } from '#recua/cli/chat/parameters.js';
import { root } from '../recua.js';
import { always, endless, openChat, readSaved } from './chats.js';

const wide = { columns: 160, rows: 60 };

t.test('every sampling setting is a parameter, by each of its names', (t) => {
  for (const [key, { fields }] of Object.entries(samplerSettings)) {
    const found = parameters.find((one) => one.key === key)!;
    for (const name of [key, ...fields]) t.ok(name === found.name || found.others.includes(name), name);
  }
  t.equal(new Set(parameters.flatMap(({ name, others }) => [name, ...others])).size, parameters.reduce((sum, { others }) => sum + others.length + 1, 0), 'no name is of two');
  t.end();
});

t.test('/set parameter applies to the next answers, and the saved chat keeps it', async (t) => {
  const chat = await openChat(t, ['--no-save'], wide);
  t.match(await chat.say('/set parameter temperature 0.2'), /^temperature is 0\.2 now\.$/);
  t.match(await chat.say('/set parameter num_predict 3'), /max_tokens is 3 now/);
  t.match(await chat.say('/set top-k 1'), /top_k is 1 now/, 'without the word, by our own name');
  t.match(await chat.say('/set parameter repeat_last_n 7'), /repeat_last_n is 7 now/);
  t.match(await chat.say('/set parameter mirostat 2'), /mirostat is 2 now/);
  await chat.say('Tell me a story');
  t.match(await chat.say('/tokens'), /Generated +3 tokens/);
  t.match(await chat.say('/stats'), /temperature 0\.2, .*top-k 1, .*at most 3 tokens, repeat_last_n 7, mirostat 2/);
  const listed = await chat.say('/set parameter');
  t.match(listed, /^temperature +0\.2$/m);
  t.match(listed, /^xtc_probability +0$/m);
  t.match(await chat.say('/show parameters'), /^repeat_last_n +7$/m);
  t.match(await chat.say('/set parameter seed'), /^seed is 0 \(random\)\.$/);
});

t.test('a setting that does not exist is reported, with those that do', async (t) => {
  const chat = await openChat(t, [], wide);
  for (const [line, said] of [
    ['/set temprature 0.5', /There is nothing called "temprature" to set\. Did you mean \/set temperature\?/],
    ['/set parameter temperature hot', /Expected a number from 0 to 100 for temperature, got "hot"/],
    ['/set parameter top_k 1.5', /Expected a whole number from 0 to \d+ for top_k, got "1\.5"/],
    ['/set parameter temprature 1', /no parameter "temprature"\. Did you mean temperature\?/],
    ['/set parameter num_ctx 8192', /fixed when the model is loaded.*recua chat --continue -c <n>/],
    ['/set parameter stop ""', /Expected at most 16 texts/],
    ['/set verbos', /Did you mean \/set verbose\?/],
    ['/set verbose now', /takes nothing after it, got "now"/],
    ['/set format yaml', /Expected \/set format json, got "yaml"/],
    ['/set system', /Expected the system prompt/],
    ['/set nowordwrap', /recua chat --continue --raw/],
    ['/show nothing', /Expected one of info, parameters, system, template/],
  ] as const) t.match(await chat.say(line), said, line);
});

t.test('/set stop, system and format change the answers; noformat and an empty stop undo that', async (t) => {
  const chat = await openChat(t, always('one two three'), wide);
  t.match(await chat.say('/set parameter stop "two" three'), /ends before "two" or "three" now/);
  t.match(await chat.say('go'), /^one$/);
  t.same(readSaved(chat.home).sampling['stop'], ['two', 'three']);
  await chat.say('/set parameter min_tokens 1');
  t.equal(readSaved(chat.home).sampling['min_tokens'], 1);
  await chat.say('/set parameter stop');
  t.match(await chat.say('/retry'), /^one two three$/);
  t.match(await chat.say('/set system "Be brief."'), /is set/);
  t.equal(await chat.say('/show system'), 'Be brief.');
  t.match(await chat.say('/set format json'), /JSON object/);
  t.match(await chat.say('/set'), /format json, quiet, think, history\.$/);
  await chat.say('go');
  t.match(readSaved(chat.home).messages.at(-1)!.content, /^\s*\{/);
  t.match(await chat.say('/set noformat'), /grammar of the command line/);
  t.match(await chat.say('go'), /^one two three$/);
  await chat.leave();
  const again = await openChat(t, ['--continue'], { ...wide, home: chat.home });
  t.match(await again.say('/set'), /min_tokens 1/, 'a chat that goes on has its settings');
  t.match(await again.say('/set noformat'), /Any answer is allowed now/);
});

t.test('/set verbose ends each answer with its speed until /set quiet', async (t) => {
  const chat = await openChat(t, always('ok'), wide);
  t.notMatch(await chat.say('go'), /wrote/);
  await chat.say('/set verbose');
  t.match(await chat.say('go'), /^ok\nrecua: read \d+ of \d+ tokens.*, wrote \d+/);
  await chat.say('/set quiet');
  t.equal(await chat.say('go'), 'ok');
});

t.test('/set nohistory keeps no typed text, not even for later chats', async (t) => {
  const chat = await openChat(t, always('ok'), wide);
  await chat.say('/set nohistory');
  await chat.say('a secret');
  await chat.say('/set history');
  await chat.say('no secret');
  await chat.leave();
  const later = await openChat(t, [], { ...wide, home: chat.home, env: {} });
  later.type('\x1b[A');
  await later.until(() => later.cursor().line === '> no secret', 'what was kept');
  later.type('\x1b[A');
  await later.until(() => later.cursor().line === '> /set nohistory', 'the secret is not between');
});

t.test('/set nothink reaches the template', async (t) => {
  const template = join(root, 'vendor/llama.cpp/models/templates/Qwen-Qwen3-0.6B.jinja');
  const chat = await openChat(t, [...always('ok'), '--chat-template-file', template, '--no-save'], wide);
  const prompt = async () => {
    await chat.say('go');
    await chat.say('/undo');
    await chat.say('go');
    const [, tokens] = /Prompt +(\d+)/.exec(await chat.say('/tokens'))!;
    await chat.say('/undo');
    return Number(tokens);
  };
  const thinking = await prompt();
  t.match(await chat.say('/set nothink'), /does not think/);
  t.ok(await prompt() > thinking, 'it has an empty thought');
  await chat.say('/set think');
  t.equal(await prompt(), thinking);
});

t.test('/show lists the settings of the chat, and Tab completes the words after /set', async (t) => {
  const chat = await openChat(t, [...endless], wide);
  t.match(await chat.say('/show info'), /Model +builtin\nWhat it is +llama[^\n]*\nContext +4096 tokens/);
  t.match(await chat.say('/show template'), /The template is auto, the model's own/);
  t.match(await chat.say('/show'), /\/show info, \/show parameters/);
  chat.type('/set par\t');
  await chat.until(() => chat.cursor().line === '> /set parameter', 'the first word');
  chat.type('mirostat_t\t');
  await chat.until(() => chat.cursor().line === '> /set parameter mirostat_tau', 'completed');
  chat.type('3\r');
  await chat.until(/mirostat_tau is 3 now/);
});
