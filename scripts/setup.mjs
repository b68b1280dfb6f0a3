// `npm run setup`: makes a bare checkout runnable. Builds each part only if it is missing or stale,
// so you can stop it at any moment and run it again. start, test and build call it.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { installPackages, packagesPending } from './packages.mjs';
import { buildNative, nativePending } from './native.mjs';
import { processorPending, proveProcessor } from './processor-check.mjs';
import { oneAtATime } from './one-at-a-time.mjs';
import { isProgram, ownLlamaCpp, place, readPin, root } from './place.mjs';
import { Failure } from './process.mjs';
import { say, seconds, step } from './progress.mjs';
import { checkTools } from './tools.mjs';
import { compileTypescript, typescriptPending } from './typescript.mjs';
import { vendor, vendorPending } from './vendor.mjs';
import { copyWebModules, webModulesPending } from './web-modules.mjs';

const parts = [
  { label: 'Installing packages', packages: true, pending: packagesPending, make: installPackages },
  {
    label: 'Fetching llama.cpp',
    native: true,
    pending: () => !ownLlamaCpp() && vendorPending(),
    make: () => vendor(),
  },
  {
    get label() {
      return `Building the native addon${existsSync(place.addon) ? ' again: its sources, its options or the folder of the clone changed' : ' (the long part, once)'}`;
    },
    native: true, pending: nativePending, make: buildNative,
  },
  { label: 'Copying the modules of the page', pending: webModulesPending, make: async () => copyWebModules() },
  { label: 'Compiling TypeScript', pending: typescriptPending, make: () => compileTypescript() },
  { label: 'Checking what the processor computes', native: true, pending: processorPending, make: proveProcessor },
];

/** Brings everything up to date; silent if nothing is to do. Returns true if something was done. */
export async function setUp({ install = true, native = true } = {}) {
  const wanted = parts.filter((part) => (install || !part.packages) && (native || !part.native));
  if (await firstPending(wanted) === wanted.length) return false;
  const release = await oneAtATime(join(root, 'build', 'set-up.lock'));
  try {
    return await make(wanted);
  } finally {
    release();
  }
}

/** Check a part only after building those before it: new node_modules can make a build stale. */
async function firstPending(wanted) {
  let first = 0;
  while (first < wanted.length && !await wanted[first].pending()) first++;
  return first;
}

async function make(wanted) {
  const start = Date.now();
  const first = await firstPending(wanted);
  if (first === wanted.length) return true;
  const total = wanted.length + 1;
  await step(`[1/${total}] Checking tools`, async () => checkTools());
  const own = ownLlamaCpp();
  if (own) say(`      llama.cpp is your own checkout, ${own}, not the pinned ${readPin().version}`);
  for (const [index, part] of wanted.entries()) {
    const label = `[${index + 2}/${total}] ${part.label}`;
    if (index < first || !await part.pending()) say(`${label}: up to date`);
    else await step(label, part.make).catch(hopeful);
  }
  say(`Set-up done in ${seconds(Date.now() - start)}`);
  return true;
}

function hopeful(error) {
  throw error instanceof Failure ? new Failure(`${error.message.trimEnd()}\n\nTo try again, run the same command: it continues where it stopped.`) : error;
}

/** Runs a script's main function: turns its failures into messages and an exit code. */
export async function program(main) {
  process.once('SIGINT', () => {
    say('\nStopped. The next run continues here.');
    process.exit(130);
  });
  try {
    process.exitCode = (await main()) ?? 0;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    say(error.message);
    process.exitCode = 1;
  }
}

if (isProgram(import.meta.url)) {
  await program(async () => {
    if (!(await setUp())) say('Everything is up to date.');
  });
}
