// Removing saved chats and what is left of their saving.
import t from 'tap';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { SessionKeeper } from '#recua/cli/chat/sessions/session-keeper.js';
import type { Session } from '#recua/cli/chat/sessions/session.js';
import { removeSession, saveSession } from '#recua/cli/chat/sessions/session-store.js';
import { chatSettings } from '#recua/cli/flags/answer-flags.js';

const id = '6f0c1f6e-4c8e-4d5b-9a39-1f2e3d4c5b6a';
const drafts = { [`a.json.${id}`]: '', [`a.kv.${id}`]: '' };
const others = { 'ab.json': '', 'a.json.5.json': '', 'a.json.1': '', 'a.json.20261130': '', [`ab.json.${id}`]: '', [`ab.kv.${id}`]: '', 'a.kv.notes': '' };

const now = '2026-01-31T10:00:00.000Z';
/** A chat with one message. */
const saved = (message: string): Session => ({
  model: 'builtin', system: '', template: 'auto', settings: chatSettings(), createdAt: now, updatedAt: now, exchanges: [{ message, sentAt: now }],
});

t.test('a chat that cannot be opened changes nothing', async (t) => {
  const damaged = '{"recua_session": 1, ';
  const folder = t.testdir({ 'b.json': damaged });
  await saveSession(join(folder, 'a.json'), saved('Hi'));
  const keeper = new SessionKeeper(folder, true);
  const session = await keeper.open(join(folder, 'a.json'));
  await t.rejects(keeper.open(join(folder, 'b.json')), { code: 'invalid_session' });
  t.equal(keeper.name, 'a');
  await keeper.save(session);
  t.equal(readFileSync(join(folder, 'b.json'), 'utf8'), damaged);
  const other = new SessionKeeper(folder, true);
  await t.rejects(other.open(join(folder, 'a.json')), { code: 'session_locked' });
  await keeper.release();
});

t.test('a chat of another folder stays there when it gets a name', async (t) => {
  const name = '2026-01-31-tell-me-a-story.json';
  const place = t.testdir({ sessions: {} });
  await saveSession(join(place, name), saved('Tell me a story'));
  const keeper = new SessionKeeper(join(place, 'sessions'), true);
  const session = await keeper.open(join(place, name));
  t.equal(await keeper.rename('mine'), name.replace('.json', ''));
  await keeper.save(session);
  await keeper.release();
  t.strictSame(readdirSync(place).sort(), [name, 'sessions']);
  t.ok(readdirSync(join(place, 'sessions')).includes('mine.json'));
});

t.test('a removed chat leaves nothing, not even what a killed program had begun to write', async (t) => {
  const folder = t.testdir({ 'a.json': '', 'a.kv': '', ...drafts, ...others });
  await removeSession(folder, join(folder, 'a.json'));
  t.strictSame(readdirSync(folder).sort(), Object.keys(others).sort());
});

t.test('what is called like a part of a chat outside the folder of chats stays', async (t) => {
  const place = t.testdir({ sessions: {}, 'a.json': '', 'a.kv': 'video', 'a.json.1': '' });
  await saveSession(join(place, 'a.json'), saved('Hi'));
  const keeper = new SessionKeeper(join(place, 'sessions'), true);
  await keeper.open(join(place, 'a.json'));
  t.equal(keeper.kvPath, undefined);
  await keeper.release();
  await removeSession(join(place, 'sessions'), join(place, 'a.json'));
  t.strictSame(readdirSync(place).sort(), ['a.json.1', 'a.kv', 'sessions']);
});

t.test('opening a chat removes what a killed program had begun to write', async (t) => {
  const folder = t.testdir({ 'a.json': '', 'a.kv': '', ...drafts, ...others });
  await saveSession(join(folder, 'a.json'), saved('Hi'));
  const keeper = new SessionKeeper(folder, true);
  await keeper.open(join(folder, 'a.json'));
  await keeper.release();
  t.strictSame(readdirSync(folder).sort(), ['a.json', 'a.kv', ...Object.keys(others)].sort());
});
