// llama.cpp's own programs, built in the addon's build folder from the same tree with the same
// flags, for comparison in tests and benchmarks. Recua does not include them.
import { existsSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { isProgram, place } from './place.mjs';
import { run } from './process.mjs';
import { buildCounter, say, step } from './progress.mjs';
import { program, setUp } from './setup.mjs';

const suffix = process.platform === 'win32' ? '.exe' : '';

/** Where a peer program is built. */
export const peerPath = (name) => join(place.build, 'bin', `${name}${suffix}`);

/** Builds the named programs, such as `llama-server`. Ninja or make decides what to rebuild. */
export async function buildPeers(names, report = () => {}) {
  const parallel = String(os.availableParallelism());
  await run('cmake', ['--build', place.build, '--config', 'Release', '--parallel', parallel, '--target', ...names], { onLine: buildCounter(report) });
}

/** Does the same as a reported step; silent if they exist. */
export async function ensurePeers(names) {
  const work = (report) => buildPeers(names, report);
  if (names.every((name) => existsSync(peerPath(name)))) await work(() => {});
  else await step(`Building ${names.join(' and ')} to compare with`, work);
}

if (isProgram(import.meta.url)) {
  await program(async () => {
    await setUp();
    const names = process.argv.slice(2);
    await ensurePeers(names.length > 0 ? names : ['llama-server']);
    say('Peers are up to date.');
  });
}
