// Removing saved chats.
import t from 'tap';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { removeSession } from '#recua/cli/chat/sessions/session-store.js';

t.test('a removed chat leaves nothing, not even what a killed program had begun to write', async (t) => {
  const id = '6f0c1f6e-4c8e-4d5b-9a39-1f2e3d4c5b6a';
  const others = { 'ab.json': '', 'a.json.lock': '', 'a.json.5.json': '', 'ab.json.123': '', [`ab.kv.${id}`]: '', 'a.kv.notes': '' };
  const folder = t.testdir({ 'a.json': '', 'a.kv': '', 'a.json.123': '', [`a.kv.${id}`]: '', ...others });
  await removeSession(join(folder, 'a.json'));
  t.strictSame(readdirSync(folder).sort(), Object.keys(others).sort());
});
