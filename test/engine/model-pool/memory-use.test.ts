import t from 'tap';
import { join } from 'node:path';
import { freeBytes, leftInGroup, memoryForModels, ownBytes, residentBytes } from '#recua/engine/model-pool/memory-use.js';

t.test('the memory left in a container is the least of its groups, not counting cached files', (t) => {
  const group = (max: string, current: number, files = 0) => ({
    'memory.max': `${max}\n`, 'memory.current': `${current}\n`, 'memory.stat': `anon 5\ninactive_file ${files}\nactive_file 1\nslab 7\n`,
  });
  const top = t.testdir({ wide: { ...group('1000', 700, 99), own: group('max', 650), narrow: group('500', 450, 19) } });
  const left = (path: string) => leftInGroup(join(top, path), top);
  t.equal(left('wide'), 400);
  t.equal(left('wide/own'), 400, 'the limit around it holds');
  t.equal(left('wide/narrow'), 70);
  t.equal(left('none'), Infinity);
  t.equal(leftInGroup(top, top), Infinity);
  t.end();
});

t.test('a reserve is subtracted from the free memory', { skip: process.platform !== 'linux' && 'told by Linux' }, (t) => {
  const free = freeBytes()!;
  const { bytes, reserveBytes } = memoryForModels();
  t.ok(free > 0 && bytes < free && reserveBytes >= 512 * 2 ** 20);
  t.ok(ownBytes(process.pid)! > 0 && ownBytes(process.pid)! < residentBytes(process.pid)!);
  t.equal(ownBytes(undefined), undefined);
  t.end();
});
