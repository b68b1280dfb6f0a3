import t from 'tap';
import { freeBytes, memoryForModels, ownBytes, residentBytes } from '#recua/engine/model-pool/memory-use.js';

t.test('a reserve is subtracted from the free memory', { skip: process.platform !== 'linux' && 'told by Linux' }, (t) => {
  const free = freeBytes()!;
  const { bytes, reserveBytes } = memoryForModels();
  t.ok(free > 0 && bytes < free && reserveBytes >= 512 * 2 ** 20);
  t.ok(ownBytes(process.pid)! > 0 && ownBytes(process.pid)! < residentBytes(process.pid)!);
  t.equal(ownBytes(undefined), undefined);
  t.end();
});
