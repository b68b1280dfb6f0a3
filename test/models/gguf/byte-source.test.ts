import t from 'tap';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileSource } from '#recua/models/gguf/byte-source.js';
import type { ByteSource } from '#recua/models/gguf/byte-source.js';
import { readGguf } from '#recua/models/gguf/gguf.js';
import { model } from '../hub-layout.js';

t.test('fileSource() reads at any offset, up to the end of the file', async (t) => {
  const path = join(t.testdir({ a: 'hello' }), 'a');
  const source = await fileSource(path);
  t.equal(source.name, path);
  t.equal(source.sizeBytes, 5);
  const target = Buffer.alloc(4);
  t.equal(await source.read(target, 3), 2);
  t.equal(target.toString('utf8', 0, 2), 'lo');
  t.equal(await source.read(target, 5), 0);
  await source.close();
});

t.test('fileSource() refuses a path that is not a file, and does not wait for a pipe', async (t) => {
  const folder = t.testdir();
  await t.rejects(fileSource(join(folder, 'none')), { code: 'model_not_found' });
  await t.rejects(fileSource(folder), { code: 'file_unreadable', message: /is a folder/ });
  const pipe = join(folder, 'pipe');
  if (process.platform !== 'win32') {
    execFileSync('mkfifo', [pipe]);
    await t.rejects(fileSource(pipe), { code: 'file_unreadable', message: /not a regular file/ });
  }
});

t.test('a lack of open files is no fault of the file, and passes', { skip: process.platform === 'win32' }, async (t) => {
  const path = join(t.testdir({ a: 'hello' }), 'a');
  const program = `
    const { openSync } = await import('node:fs');
    const { fileSource } = await import(${JSON.stringify(import.meta.resolve('#recua/models/gguf/byte-source.js'))});
    try { for (;;) openSync(${JSON.stringify(path)}); } catch {}
    await fileSource(${JSON.stringify(path)}).catch(({ code, status }) => console.log(code, status));`;
  const printed = execFileSync('sh', ['-c', 'ulimit -n 100; exec "$0" --input-type=module -e "$1"', process.execPath, program], { encoding: 'utf8' });
  t.equal(printed, 'too_many_open_files 503\n');
});

t.test('readGguf() reads any source, even one that gives a few bytes at a time, and leaves it open', async (t) => {
  const bytes = model('remote');
  const path = join(t.testdir(), 'a.gguf');
  writeFileSync(path, bytes);
  let closed = 0;
  const source: ByteSource = {
    name: 'owner/repo/a.gguf', sizeBytes: bytes.length,
    read: async (target, offset) => bytes.copy(target, 0, offset, offset + 7),
    close: async () => { closed++; },
  };
  // The place of the file is marked and has a time; bytes from elsewhere have neither.
  const { mark, modifiedSeconds, ...read } = await readGguf(path);
  t.ok(mark);
  t.ok(modifiedSeconds);
  t.strictSame({ ...await readGguf(source), path }, { ...read, mark: undefined, modifiedSeconds: undefined });
  t.equal(closed, 0);
  await t.rejects(readGguf({ ...source, read: async () => 0 }), { code: 'invalid_gguf', message: /owner\/repo\/a\.gguf is cut off/ });
});
