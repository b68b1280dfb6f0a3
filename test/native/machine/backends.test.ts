// Working and broken GPU backends, in separate processes: whatever a library does, the process that
// wants it survives.
import t from 'tap';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, closeSync, openSync, readdirSync, realpathSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { BackendReport } from '#recua/addon/backends.js';
import { gpuLayers } from '../../device.js';
import { fakeBackend, release } from '../fake-backend.js';
import type { FakeKind } from '../fake-backend.js';
import { base, basePackage, flatLayout, placePackage, pnpmLayout } from '../installed.js';

const skip = process.platform !== 'linux' ? 'not Linux' : gpuLayers !== 0 && 'a backend is compiled in';

interface Outcome {
  reports: BackendReport[];
  devices: string[];
  again: boolean;
}

async function loadAll(recua: string, limitMs = 30_000): Promise<Outcome> {
  const part = (name: string) => JSON.stringify(pathToFileURL(join(recua, 'dist', 'addon', name)).href);
  const body = `
    const { openAddon } = await import(${part('load.js')});
    const { loadOptionalBackends } = await import(${part('backends.js')});
    const opened = openAddon();
    const [reports, second] = await Promise.all([loadOptionalBackends(opened, undefined, ${limitMs}), loadOptionalBackends(opened)]);
    console.log(JSON.stringify({ reports, devices: opened.addon.devices().map(({ name }) => name), again: reports === second }));`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', body], { cwd: '/', env: { ...process.env, RECUA_ADDON: '' } });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const [code] = await once(child, 'close') as [number | null];
  if (code !== 0) throw new Error(`exit code ${code}: ${stderr}`);
  return JSON.parse(stdout) as Outcome;
}

const fake = (library?: string, more: object = {}) => ({ name: `${base}-fake`, backend: 'fake', ...(library === undefined ? {} : { library }), ...more });

t.test('a working backend gives its devices, once, however often it is asked for', { skip }, async (t) => {
  const folder = realpathSync(t.testdir());
  const library = fakeBackend();
  const { reports, devices, again } = await loadAll(flatLayout(folder, [basePackage, fake(library)]));
  t.match(reports, [{ backend: 'fake', package: `@recua/${base}-fake`, loaded: true, devices: ['FAKE0', 'FAKE1'], reason: '' }]);
  t.strictSame(devices, ['CPU', 'FAKE0', 'FAKE1']);
  t.ok(again);
  t.match(await loadAll(pnpmLayout(join(folder, 'pnpm'), [basePackage], [fake(library)])), { devices: ['CPU', 'FAKE0', 'FAKE1'] });
  t.match(await loadAll(flatLayout(join(folder, 'prefix'), [basePackage, fake(library)], true)), { devices: ['CPU', 'FAKE0', 'FAKE1'] });
});

t.test('without its package no backend is tried', { skip }, async (t) => {
  t.match(await loadAll(flatLayout(realpathSync(t.testdir()), [basePackage])), { reports: [], devices: ['CPU'] });
});

t.test('an unusable backend is left out with its reason, and the process survives', { skip }, async (t) => {
  const folder = realpathSync(t.testdir());
  const recua = flatLayout(folder, [basePackage]);
  const place = join(folder, 'node_modules', '@recua');
  const reasons: Record<string, RegExp> = {
    abort: /^loading it ended the process \(signal SIGABRT\): fake driver: no such device, giving up$/,
    exit: /^loading it ended the process \((?:exit code 0|signal SIG[A-Z]+)\): fake driver: this machine is not licensed$/,
    null: /ggml_backend_init returned NULL; Vulkan's loader: libX11\.so\.6: cannot open shared object file$/,
    version: /incompatible API version \(backend: 9999/,
    symbol: /^it does not fit the libraries beside it: fake_function_that_no_library_has/,
    score: /^this processor lacks instructions/,
  };
  // All at once: each runs in its own process.
  for (const [fault] of Object.entries(reasons)) {
    const library = fakeBackend({ fault } as FakeKind);
    placePackage(join(place, `${base}-${fault}`), { name: `${base}-${fault}`, backend: fault, library });
  }
  placePackage(join(place, `${base}-nodevice`), { name: `${base}-nodevice`, backend: 'nodevice', library: fakeBackend({ devices: 0 }) });
  placePackage(join(place, `${base}-good`), { name: `${base}-good`, backend: 'good', library: fakeBackend({ devices: 1 }) });
  placePackage(join(place, `${base}-old`), { name: `${base}-old`, backend: 'old', version: '0.0.1', library: fakeBackend() });
  placePackage(join(place, `${base}-empty`), { name: `${base}-empty`, backend: 'empty' });
  const damage: Record<string, (path: string) => void> = {
    cut: (path) => truncateSync(path, 3000),
    garbage: (path) => writeFileSync(path, 'garbage'.repeat(999)),
    foreign(path) {
      const file = openSync(path, 'r+');
      writeSync(file, Uint8Array.of(183, 0), 0, 2, 18);
      closeSync(file);
    },
  };
  for (const [name, spoil] of Object.entries(damage)) {
    placePackage(join(place, `${base}-${name}`), { name: `${base}-${name}`, backend: name, library: fakeBackend() });
    spoil(join(place, `${base}-${name}`, 'bin', `libggml-${name}.so`));
  }
  const { reports, devices } = await loadAll(recua);
  const reasonOf = (backend: string) => reports.find((one) => one.backend === backend)?.reason;
  for (const [fault, reason] of Object.entries(reasons)) t.match(reasonOf(fault), reason, fault);
  t.equal(reasonOf('nodevice'), 'it finds no device that it could use');
  t.match(reasonOf('old'), /it is version 0\.0\.1, but this is Recua .*; `npm install @recua\/\S+-old@\S+` brings the one that fits/);
  t.match(reasonOf('empty'), /its library is missing; `npm install/);
  t.match(reasonOf('cut'), /cut off/);
  t.match(reasonOf('garbage'), /damaged/);
  t.match(reasonOf('foreign'), /built for arm64/);
  t.strictSame(devices, ['CPU', 'FAKE0'], 'the one that works does');
  t.strictSame(reports.filter(({ loaded }) => loaded).map(({ backend }) => backend), ['good']);
});

t.test('a backend that never returns is abandoned', { skip }, async (t) => {
  const recua = flatLayout(realpathSync(t.testdir()), [basePackage, fake(fakeBackend({ fault: 'hang' }))]);
  t.match(await loadAll(recua, 1_500), { reports: [{ loaded: false, reason: 'it did not load within 1.5 s' }], devices: ['CPU'] });
});

t.test('libraries beside an addon whose backends are compiled in are not touched', { skip }, async (t) => {
  const folder = realpathSync(t.testdir());
  const recua = flatLayout(folder, [{ name: base, backend: 'cpu' }]);
  const bin = join(folder, 'node_modules', '@recua', base, 'bin');
  for (const name of readdirSync(release)) copyFileSync(join(release, name), join(bin, name));
  copyFileSync(fakeBackend(), join(bin, 'libggml-fake.so'));
  t.match(await loadAll(recua), { reports: [], devices: ['CPU'] });
});
