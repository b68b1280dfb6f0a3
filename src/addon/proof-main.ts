// Entry of the process in which the CPU library proves itself, started by engine/proof/trial.ts:
// opens the addon, chooses the library like an engine, and computes with each family of kernels.
// Before each operation that may crash the process, it writes a line of JSON to stdout that names
// it.
import { readdirSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { RecuaError } from '../errors.js';
import type { Blamed, TrialLine, TrialRequest } from '../engine/proof/trial.js';
import { openAddonAlone } from './load.js';
import type { OpenedAddon } from './load.js';
import { cpuLibrary } from './places.js';
import { kernelsAmong } from './refused.js';

const { families, refused, limitMs } = JSON.parse(process.argv[2]!) as TrialRequest;

function say(line: TrialLine): void {
  writeSync(1, `${JSON.stringify(line)}\n`);
}

/** Ends the process from another thread: a library that hangs blocks this one. */
function watch(): void {
  new Worker(`setTimeout(() => process.kill(${process.pid}, 'SIGKILL'), ${limitMs})`, { eval: true }).unref();
}

/** Chooses like native code, but names each library before touching it. */
function chooseLibrary({ addon, place, linked }: OpenedAddon): string {
  const folder = dirname(place.path);
  if (linked) {
    const name = readdirSync(folder).find((one) => cpuLibrary.test(one));
    return name === undefined ? place.path : join(folder, name);
  }
  let best = { file: '', points: 0 };
  for (const name of readdirSync(folder).sort()) {
    const file = join(folder, name);
    if (!cpuLibrary.test(name) || file in refused) continue;
    say({ at: 'loading', library: file });
    const points = addon.rateBackend(file);
    if (points > best.points) best = { file, points };
  }
  say({ at: 'loading', library: best.file });
  addon.loadBackends(folder, true, refused);
  return best.file;
}

function prove(): void {
  const opened = openAddonAlone(refused);
  watch();
  const { addon, linked } = opened;
  const library = chooseLibrary(opened);
  say({ chosen: library, linked, features: addon.backends().find(({ name }) => name === 'CPU')?.features ?? {} });
  const attention = addon.attention().kernels.find((name) => !kernelsAmong(refused, 'attention').includes(name));
  const matmul = addon.matmul().kernels.find((name) => !kernelsAmong(refused, 'matmul').includes(name));
  for (const family of families) {
    const [kind, ...types] = family.split(' ');
    const kernel = kind === 'attention' ? attention : kind === 'products' && addon.matmul().types.includes(types[0]!) ? matmul : undefined;
    const ours = kernel === undefined ? [] : [`own-${kind} ${kernel} ${types.join(' ')}`];
    for (const one of [family, ...ours]) {
      const blamed: Blamed = one === family ? { library } : { kernel: `${kind === 'attention' ? 'attention' : 'matmul'} ${kernel}` };
      say({ at: one, ...blamed });
      const wrong = addon.proveCpu(one);
      if (wrong !== '') return say({ wrong, at: one, ...blamed });
    }
  }
  say({ done: true });
}

try {
  say({ at: 'loading' });
  prove();
} catch (error) {
  say({ failed: RecuaError.from(error).toPlain() });
}
process.exit(0);
