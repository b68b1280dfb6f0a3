// Removing saved chats and what is left of their saving.
import t from 'tap';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { SessionKeeper } from '#recua/cli/chat/sessions/session-keeper.js';
import { removeSession } from '#recua/cli/chat/sessions/session-store.js';

const id = '6f0c1f6e-4c8e-4d5b-9a39-1f2e3d4c5b6a';
const drafts = { [`a.json.${id}`]: '', [`a.kv.${id}`]: '' };
const others = { 'ab.json': '', 'a.json.5.json': '', 'a.json.1': '', 'a.json.20261130': '', [`ab.json.${id}`]: '', [`ab.kv.${id}`]: '', 'a.kv.notes': '' };

t.test('a removed chat leaves nothing, not even what a killed program had begun to write', async (t) => {
  const folder = t.testdir({ 'a.json': '', 'a.kv': '', ...drafts, ...others });
  await removeSession(folder, join(folder, 'a.json'));
  t.strictSame(readdirSync(folder).sort(), Object.keys(others).sort());
});

t.test('what is called like a part of a chat outside the folder of chats stays', async (t) => {
  const place = t.testdir({ sessions: {}, 'a.json': '', 'a.kv': 'video', 'a.json.1': '' });
  const keeper = new SessionKeeper(join(place, 'sessions'), true);
  await keeper.moveTo(join(place, 'a.json'));
  t.equal(keeper.kvPath, undefined);
  await keeper.release();
  await removeSession(join(place, 'sessions'), join(place, 'a.json'));
  t.strictSame(readdirSync(place).sort(), ['a.json.1', 'a.kv', 'sessions']);
});

t.test('opening a chat removes what a killed program had begun to write', async (t) => {
  const folder = t.testdir({ 'a.json': '', 'a.kv': '', ...drafts, ...others });
  const keeper = new SessionKeeper(folder, true);
  await keeper.moveTo(join(folder, 'a.json'));
  await keeper.release();
  t.strictSame(readdirSync(folder).sort(), ['a.json', 'a.kv', ...Object.keys(others)].sort());
});
