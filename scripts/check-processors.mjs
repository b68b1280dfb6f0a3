// `node scripts/check-processors.mjs [MODEL …]`: runs the packaged addon on processors that this
// machine does not have, with qemu's user mode (Debian: qemu-user), and checks that it loads the
// right library and exits cleanly: no illegal instruction. Needs `npm run pack` first. qemu has no
// AVX-512, so levels from skylakex up run only if the machine has them.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { place, root } from './place.mjs';
import { capture, Failure } from './process.mjs';
import { seconds } from './progress.mjs';
import { program } from './setup.mjs';

const emulator = { x64: 'qemu-x86_64', arm64: 'qemu-aarch64' };
/** qemu's name for a processor → its best level. */
const expected = {
  x64: {
    Conroe: 'x64', Nehalem: 'sse42', Westmere: 'sse42', SandyBridge: 'sandybridge', IvyBridge: 'ivybridge', Opteron_G5: 'piledriver',
    Haswell: 'haswell', 'Skylake-Client': 'haswell', EPYC: 'haswell', max: 'haswell',
  },
  arm64: { 'cortex-a53': 'armv8.0_1', 'cortex-a76': 'armv8.2_2', 'neoverse-n1': 'armv8.2_2' },
}[process.arch];

await program(async () => {
  const addon = join(place.buildPack, 'stage', `linux-${process.arch}`, 'bin', 'recua.node');
  if (process.platform !== 'linux' || !expected) throw new Failure('qemu runs programs of Linux on x64 and arm64 only.');
  if (!existsSync(addon)) throw new Failure(`There is no ${addon}. Run \`npm run pack\`.`);
  const qemu = emulator[process.arch];
  if (capture(qemu, ['--version']) === undefined) throw new Failure(`${qemu} is missing: sudo apt install qemu-user`);
  const names = process.argv.slice(2);
  const unknown = names.find((name) => !Object.hasOwn(expected, name));
  if (unknown) throw new Failure(`What ${unknown} should choose is not known here. Known: ${Object.keys(expected).join(', ')}.`);
  let failed = 0;
  const chosen = names.length > 0 ? names : Object.keys(expected);
  const life = fileURLToPath(new URL('./load-use-exit.mjs', import.meta.url));
  for (const model of chosen) {
    const start = Date.now();
    const { status, signal, stdout, stderr } = spawnSync(qemu, ['-cpu', model, process.execPath, life, root, 'close'], {
      encoding: 'utf8', env: { ...process.env, RECUA_ADDON: addon, OMP_NUM_THREADS: '2' }, timeout: 600_000,
    });
    const variant = /libggml-cpu-(\S+)\.so/.exec(stdout)?.[1];
    const good = status === 0 && variant === expected[model];
    if (!good) failed++;
    console.log(`${good ? 'ok    ' : 'FAILED'}  ${model}: ${variant ?? 'no library'}, expected ${expected[model]}; ended with ${signal ?? status} after ${seconds(Date.now() - start)}`);
    if (!good) console.log(stderr.replace(/^/gm, '        ').slice(-2000));
  }
  console.log(`${chosen.length - failed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
});
