// Files that make llama.cpp end the process, and weights that are NaN: the messages for both.
import t from 'tap';
import { copyFileSync, openSync, closeSync, writeSync, renameSync, mkdirSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readModelFile } from '#recua/models/gguf/model-file.js';
import { builtinPath } from '#recua/models/store.js';
import { gguf, sound, types, type Meta } from '../models/gguf-bytes.js';
import { recua } from './recua.js';

/** Sets every bit of the tensors, which is NaN in all floating-point types. */
async function damage(path: string): Promise<void> {
  const { parts: [{ dataOffset, tensors }] } = await readModelFile(path);
  const file = openSync(path, 'r+');
  const { offset, sizeBytes } = tensors.find(({ name }) => name === 'output_norm.weight')!;
  writeSync(file, Buffer.alloc(sizeBytes, 0xff), 0, sizeBytes, dataOffset + offset);
  closeSync(file);
}

t.test('a file that llama.cpp gives up on is refused with its reason, without a stack trace', async (t) => {
  const path = join(t.testdir(), 'odd.gguf');
  const of = (name: string, value: number): Meta => [`wavtokenizer-dec.${name}`, types.u32, value];
  writeFileSync(path, gguf({
    ...sound,
    metadata: [
      ['general.architecture', types.string, 'wavtokenizer-dec'], of('context_length', 128), of('embedding_length', 32), of('block_count', 2), of('features_length', 32),
      of('posnet.embedding_length', 32), of('posnet.block_count', 3), of('convnext.embedding_length', 32), of('convnext.block_count', 2),
      ...sound.metadata!.filter((one) => !Buffer.isBuffer(one) && one[0].startsWith('tokenizer.')),
    ],
  }));
  const { code, stderr } = await recua(['run', path, '-p', 'Hello']);
  t.equal(code, 1);
  t.match(stderr, /^recua: The engine process died while loading the model \(signal SIGABRT\); its last output: .*GGML_ASSERT\(\S.*\) failed\.$/m);
  t.notMatch(stderr, /\[0x|^#\d/m);
});

t.test('a file without a key that llama.cpp needs is refused with the name of the key', async (t) => {
  const folder = t.testdir();
  for (const [key, missing] of [['general.architecture', 'general.architecture'], ['llama.block_count', 'llama.block_count, llama.attention']] as const) {
    const path = join(folder, `${key}.gguf`);
    writeFileSync(path, gguf({ ...sound, metadata: sound.metadata!.filter((one) => Buffer.isBuffer(one) || one[0] !== key) }));
    const { code, stderr } = await recua(['run', path, '-p', 'Hello']);
    t.equal(code, 1);
    t.match(stderr, new RegExp(`The file lacks ${missing}.*: get it again, or convert the model again\\.$`, 'm'));
  }
});

t.test('damaged weights end with an error that names the file, with any sampler', async (t) => {
  const path = join(t.testdir(), 'broken.gguf');
  copyFileSync(builtinPath, path);
  await damage(path);
  const says = /The outputs of broken\.gguf are not numbers, so the file is damaged\. Check the file with recua show --verify/;
  const ways = [['--temp', '0'], ['--temp', '1'], ['--temp', '1', '--top-k', '0', '--top-p', '0.9'], ['--temp', '1', '--top-k', '60000'], ['-g', 'root ::= "a" | "b"']];
  for (const flags of ways) {
    const { code, stderr } = await recua(['run', path, '-p', 'Hello', '-n', '4', ...flags]);
    t.equal(code, 1, flags.join(' '));
    t.match(stderr, says, flags.join(' '));
    t.notMatch(stderr, /No token is allowed/);
  }
});

t.test('show --verify compares a model of the store with what was stored', async (t) => {
  const folder = t.testdir();
  const env = { SERVICE_HOME: folder, HUB_HOME: '', HF_HOME: '', HF_HUB_CACHE: '' };
  const blobs = join(folder, 'hub', 'models--o--r', 'blobs');
  const snapshot = join(folder, 'hub', 'models--o--r', 'snapshots', 'a'.repeat(40));
  for (const place of [blobs, snapshot]) mkdirSync(place, { recursive: true });
  const etag = createHash('sha256').update(readFileSync(builtinPath)).digest('hex');
  copyFileSync(builtinPath, join(blobs, 'new'));
  renameSync(join(blobs, 'new'), join(blobs, etag));
  symlinkSync(join('..', '..', 'blobs', etag), join(snapshot, 'm-Q8_0.gguf'));
  t.match(await recua(['show', 'o/r', '--verify'], '', { env }), { code: 0, stdout: new RegExp(`sha256 +${etag}: as it was stored`) });
  t.match(await recua(['show', builtinPath, '--verify'], '', { env }), { code: 0, stdout: new RegExp(`sha256 +${etag}: there is nothing to compare it with`) });
  await damage(join(blobs, etag));
  const damaged = await recua(['show', 'o/r', '--verify', '--json'], '', { env });
  t.equal(damaged.code, 1);
  t.match(JSON.parse(damaged.stdout), { hashes: [{ expected: etag }] });
  t.match(damaged.stderr, /m-Q8_0\.gguf is damaged: its sha256 is [0-9a-f]{64}, but it was stored as .*recua pull or recua import, with --force/);
  t.notOk('hashes' in JSON.parse((await recua(['show', 'o/r', '--json'], '', { env })).stdout), 'nothing is read without being asked');
});
