// Removing saved chats and what is left of their saving.
import t from 'tap';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { SessionKeeper } from '#recua/cli/chat/sessions/session-keeper.js';
import { removeSession } from '#recua/cli/chat/sessions/session-store.js';

const id = '6f0c1f6e-4c8e-4d5b-9a39-1f2e3d4c5b6a';
const drafts = { 'a.json.123': '', [`a.kv.${id}`]: '' };
const others = { 'ab.json': '', 'a.json.5.json': '', 'ab.json.123': '', [`ab.kv.${id}`]: '', 'a.kv.notes': '' };

t.test('a removed chat leaves nothing, not even what a killed program had begun to write', async (t) => {
  const folder = t.testdir({ 'a.json': '', 'a.kv': '', ...drafts, ...others });
  await removeSession(join(folder, 'a.json'));
  t.strictSame(readdirSync(folder).sort(), Object.keys(others).sort());
});

t.test('opening a chat removes what a killed program had begun to write', async (t) => {
  const folder = t.testdir({ 'a.json': '', 'a.kv': '', ...drafts, ...others });
  const keeper = new SessionKeeper(folder, true);
  await keeper.moveTo(join(folder, 'a.json'));
  await keeper.release();
  t.strictSame(readdirSync(folder).sort(), ['a.json', 'a.kv', ...Object.keys(others)].sort());
});
