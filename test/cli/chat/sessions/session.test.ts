import t from 'tap';
import { readSession, writeSession } from '#recua/cli/chat/sessions/session.js';
import type { Session } from '#recua/cli/chat/sessions/session.js';
import { checkSessionName, findSession, kvPathOf, suggestName } from '#recua/cli/chat/sessions/session-store.js';

const session: Session = {
  model: 'builtin', system: 'Be brief.', template: 'chatml', createdAt: '2026-01-31T10:00:00.000Z', updatedAt: '2026-01-31T11:00:00.000Z',
  settings: { maxTokens: 10, temperature: 0.5, topP: 0.9, topK: 40, minP: 0.05, repeatPenalty: 1.1, seed: 7 },
  exchanges: [
    {
      message: 'one\n"two"', sentAt: '2026-01-31T10:00:00.000Z',
      reply: {
        text: 'three\u001b', reasoning: 'hm', ended: 'stop', seed: 7,
        usage: { promptTokens: 3, cachedTokens: 1, completionTokens: 2 }, timings: { queueMs: 0, promptMs: 1.5, generateMs: 2 },
      },
    },
    { message: 'stopped', sentAt: '2026-01-31T10:01:00.000Z', reply: { text: 'a', reasoning: '', ended: 'stopped' } },
    { message: 'unanswered', sentAt: '2026-01-31T10:02:00.000Z' },
  ],
};

t.test('a session reads back as it was written', async (t) => {
  t.same(readSession(writeSession(session), 'a.json'), session);
  const more = { ...session, settings: { ...session.settings, topK: -1, more: { mirostat: 2, xtcProbability: 0.5 }, stop: ['a', '\n'] } };
  t.same(readSession(writeSession(more), 'a.json'), more);
  t.match(JSON.parse(writeSession(session)), { recua_session: 1, messages: [{ role: 'user' }, { role: 'assistant' }, {}, {}, { role: 'user', unanswered: true }] });
});

t.test('fields of a newer version stay, also inside objects', async (t) => {
  const whole = JSON.parse(writeSession(session));
  const [first, reply] = whole.messages;
  const newer = {
    ...whole,
    later: 1,
    sampling: { ...whole.sampling, later: 2 },
    messages: [
      { ...first, later: 3 },
      { ...reply, later: 4, usage: { ...reply.usage, later: 5 }, timings: { ...reply.timings, later: 6 } },
    ],
  };
  const read = readSession(JSON.stringify(newer), 'a.json');
  t.strictSame(JSON.parse(writeSession(read)), newer);
  t.strictSame(read.settings, session.settings);
});

t.test('every fault of a file is reported with its place', async (t) => {
  const whole = JSON.parse(writeSession(session));
  const refuse = (value: unknown, message: RegExp) => t.throws(() => readSession(typeof value === 'string' ? value : JSON.stringify(value), '/x/a.json'), { code: 'invalid_session', message });
  refuse(JSON.stringify({ messages: [{ role: 'user', content: 'x \ud800' }] }), /Expected messages\[0\]\.content to be text, got \\ud800 at character 3, which is half of a character [^]* Cut texts between characters\. The file is left unchanged/);
  refuse('', /\/x\/a\.json is not a valid saved chat: it is not valid JSON .*left unchanged/);
  refuse('[]', /the file is not an object/);
  refuse({ ...whole, recua_session: 2 }, /version 2 of the format, and this Recua reads version 1/);
  refuse({ ...whole, recua_session: undefined }, /recua_session of the file is not a number/);
  refuse({ ...whole, template: 'lama' }, /names the template "lama"/);
  refuse({ ...whole, messages: {} }, /messages of the file is not a list/);
  refuse({ ...whole, messages: [whole.messages[1]] }, /message 1 has the role assistant, but user was expected/);
  refuse({ ...whole, messages: [{ ...whole.messages[0], content: 5 }] }, /content of message 1 is not a text/);
  refuse({ ...whole, sampling: { ...whole.sampling, temperature: '1' } }, /temperature of sampling of the file is not a number/);
  refuse({ ...whole, sampling: { ...whole.sampling, max_tokens: 0 } }, /max_tokens of sampling of the file is not a number from 1 to 2147483647/);
  refuse({ ...whole, sampling: { ...whole.sampling, temperature: 1e300 } }, /temperature of sampling of the file is not a number from 0 to 100/);
  refuse({ ...whole, sampling: { ...whole.sampling, mirostat: 3 } }, /mirostat of sampling of the file is not a number from 0 to 2/);
  refuse({ ...whole, sampling: { ...whole.sampling, stop: ['a', 1] } }, /stop of sampling of the file is not a list of texts/);
  refuse({ ...whole, sampling: { ...whole.sampling, seed: 1.5 } }, /seed of sampling of the file is not a whole number/);
});

t.test('a name cannot be a path or a trick', async (t) => {
  for (const name of ['a', 'my chat', 'Gespräch_2.b', '2026-01-31-hello', '日本']) t.equal(checkSessionName(name), name);
  for (const name of ['', '.', '..', '.hidden', '../a', 'a/b', 'a\\b', 'a\nb', '-a', 'a.', 'a ', 'x'.repeat(101), 'a:b', 'a\0', 'one.json']) {
    t.throws(() => checkSessionName(name), { code: 'invalid_usage' }, JSON.stringify(name));
  }
  await t.rejects(findSession('/nowhere', 'a b:c'), { code: 'invalid_usage' });
  await t.rejects(findSession('/nowhere', 'nothing'), { code: 'session_not_found', message: /nor any other in \/nowhere/ });
});

t.test('a name is suggested from the day and the first words', async (t) => {
  const day = new Date(2026, 0, 31);
  t.equal(suggestName('Tell me, please: a STORY about the llamas and more', day), '2026-01-31-tell-me-please-a-story-about');
  t.equal(suggestName('日本語で話して', day), '2026-01-31-日本語で話して');
  t.equal(suggestName('!!! ???', day), '2026-01-31');
  for (const message of ['x'.repeat(500), '語'.repeat(500), 'a/b/../c']) t.equal(checkSessionName(suggestName(message, day)), suggestName(message, day));
});

t.test('the KV file is beside the session file', async (t) => {
  t.equal(kvPathOf('/a', '/a/b.json'), '/a/b.kv');
  t.equal(kvPathOf('/a', '/b/b.json'), undefined);
});
