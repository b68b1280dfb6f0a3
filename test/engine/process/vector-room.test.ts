// A context for vectors that would not fit into memory is refused, before the system ends the
// process.
import t from 'tap';
import { ensureVectorRoom } from '#recua/engine/process/vector-room.js';
import { builtinPath } from '#recua/models/store.js';

t.test('a context for vectors must fit into the memory that is available', async (t) => {
  await ensureVectorRoom(builtinPath, 4096);
  const mib = (count: number) => (): number => count * 2 ** 20;
  await ensureVectorRoom(builtinPath, 16_384, mib(40));
  await t.rejects(ensureVectorRoom(builtinPath, 16_384, mib(10)), { code: 'model_too_large', message: /^Vectors of texts this long need .* MiB of memory, and 10(\.\d)? MiB is available; split the text\.$/ });
});

t.test('a file that is gone is no reason to refuse', async () => {
  await ensureVectorRoom('/no/such/model.gguf', 16_384, () => 0);
});
