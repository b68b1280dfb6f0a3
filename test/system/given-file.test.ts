// Files that people name: links and pipes too, but nothing that never ends.
import t from 'tap';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { readGivenFile } from '#recua/system/given-file.js';

const soon = { nobodyMs: 0, somebodyMs: 0 };
const unix = { skip: process.platform === 'win32' && 'has no such pipes' };

function makePipe(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'recua-pipe-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  execFileSync('mkfifo', [join(folder, 'pipe')]);
  return join(folder, 'pipe');
}

t.test('files and links are read as they are', async (t) => {
  const folder = t.testdir({ file: 'ä'.repeat(100_000), empty: '' });
  symlinkSync(join(folder, 'file'), join(folder, 'link'));
  for (const name of ['file', 'link']) t.equal((await readGivenFile(join(folder, name))).length, 100_000);
  t.equal(await readGivenFile(join(folder, 'empty')), '');
  await t.rejects(readGivenFile(join(folder, 'none')), { code: 'ENOENT' });
  await t.rejects(readGivenFile(folder), { code: 'EISDIR' });
  writeFileSync(join(folder, 'file'), Buffer.alloc(16 * 2 ** 20 + 1));
  await t.rejects(readGivenFile(join(folder, 'file')), /larger than 16777216 bytes/);
});

t.test('a pipe is read to its end, also if its writer comes late and pauses', unix, async (t) => {
  const path = makePipe(t);
  const read = readGivenFile(path);
  const writer = await open(path, 'w');
  await writer.write('one');
  await new Promise((resolve) => setTimeout(resolve, 50));
  await writer.write('two');
  await writer.close();
  t.equal(await read, 'onetwo');
});

t.test('a pipe that nobody writes to, or whose writer is silent, is not waited for', unix, async (t) => {
  const path = makePipe(t);
  await t.rejects(readGivenFile(path, soon), /it is a pipe, and nothing came from it in 0 seconds/);
  const writer = await open(path, 'r+');
  await t.rejects(readGivenFile(path, soon), /nothing came from it/);
  await writer.close();
});

t.test('a device without an end is not read into memory', { skip: process.platform === 'win32' && 'has no such device' }, async (t) => {
  await t.rejects(readGivenFile('/dev/zero'), /larger than/);
  t.equal(await readGivenFile('/dev/null'), '');
});
