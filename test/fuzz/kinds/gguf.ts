// GGUF files: small ones with bytes and keys changed, and the header of the built-in model. Written
// to the disk and read by the reader that sees a file before llama.cpp does.
import fc from 'fast-check';
import { closeSync, ftruncateSync, mkdtempSync, openSync, readFileSync, readSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readGguf } from '#recua/models/gguf/gguf.js';
import { readModelFile } from '#recua/models/gguf/model-file.js';
import { builtinPath } from '#recua/models/store.js';
import { byteEdits, editedBytes, type ByteEdit } from '../edits.js';
import { kind, outcomeOf, type Outcome } from '../kind.js';
import { gguf, sound, types, type Spec } from '../../models/gguf-bytes.js';

interface Case {
  of: 'small' | 'split' | 'embedded' | 'nothing';
  edits: ByteEdit[];
  /** Bytes after the header, or minus its last bytes. */
  more: number;
}

const small = gguf(sound);
const splitSpec: Spec = { ...sound, metadata: [...sound.metadata!, ['split.no', types.u16, 0], ['split.count', types.u16, 2], ['split.tensors.count', types.i32, 4]] };
const split = gguf(splitSpec);

export default kind<Case>({
  cases: fc.record({
    of: fc.constantFrom('small', 'small', 'small', 'split', 'embedded', 'nothing'),
    edits: fc.oneof({ weight: 6, arbitrary: byteEdits(small.length) }, byteEdits(200_000, 12)),
    more: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, fc.integer({ min: -600, max: 600 }), fc.constantFrom(2 ** 31, 2 ** 40)),
  }),
  few: 400, mostMs: 10_000, mostMib: 64, heapMib: 96,
  async open() {
    const folder = mkdtempSync(join(tmpdir(), 'recua-fuzz-gguf-'));
    const path = join(folder, 'model-00001-of-00002.gguf');
    const whole = await readGguf(builtinPath);
    // The reader reads only this; the weights are a hole in the file.
    const embedded = readFileSync(builtinPath).subarray(0, whole.dataOffset);
    const bases = { small: [small, small.length], split: [split, split.length], embedded: [embedded, whole.sizeBytes], nothing: [Buffer.from('GGUF'), 4] } as const;
    return {
      async take({ of, edits, more }): Promise<Outcome> {
        const [base, size] = bases[of];
        const file = openSync(path, 'w');
        try {
          const bytes = editedBytes(base, edits);
          writeSync(file, bytes);
          // Beyond the limit of a file system, the size stays.
          try {
            ftruncateSync(file, Math.max(0, size + bytes.length - base.length + more));
          } catch { /* So it does. */ }
        } finally {
          closeSync(file);
        }
        let outcome: Outcome = 'accepted';
        try {
          const { tensors, dataOffset, sizeBytes } = await readGguf(path);
          if (!tensors.every((one) => dataOffset + one.offset + one.sizeBytes <= sizeBytes)) throw new Error('A tensor reaches past the end of the file.');
        } catch (thrown) {
          outcome = outcomeOf(thrown, (code) => code === 'invalid_gguf');
        }
        await readModelFile(path).catch((thrown: unknown) => outcomeOf(thrown, (code) => code === 'invalid_gguf'));
        return outcome;
      },
      async close() {
        const file = openSync(builtinPath, 'r');
        const magic = Buffer.alloc(4);
        readSync(file, magic);
        closeSync(file);
        if (magic.toString() !== 'GGUF' || (await readModelFile(builtinPath)).tensorCount === 0) throw new Error('The built-in model is not read any more.');
        rmSync(folder, { recursive: true, force: true });
      },
    };
  },
});
