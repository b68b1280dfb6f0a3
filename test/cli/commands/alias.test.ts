import t from 'tap';
import { copyFileSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { builtinPath } from '#recua/models/store.js';
import { model, put } from '../../models/hub-layout.js';
import { recua } from '../recua.js';

function homeOf(folder: string): (...args: string[]) => ReturnType<typeof recua> {
  const hub = join(folder, 'hub');
  put(hub, { repo: 'acme/toy', file: 'toy-Q8_0.gguf', bytes: readFileSync(builtinPath) });
  put(hub, { repo: 'acme/other', file: 'other-Q8_0.gguf', bytes: model('other') });
  return (...args) => recua(args, '', { cwd: folder, env: { SERVICE_HOME: folder, HUB_HOME: '', HF_HOME: '', HF_HUB_CACHE: '' } });
}

t.test('alias and cp give a stored model a second name, and copy nothing', async (t) => {
  const folder = t.testdir();
  const call = homeOf(folder);
  t.match(await call('alias'), { code: 0, stdout: '', stderr: 'There are no aliases. To add one: recua alias <name> <model>\n' });
  const before = statSync(join(folder, 'hub')).mtimeMs;
  t.match(await call('alias', 'toys', 'acme/toy'), { code: 0, stdout: 'toys is now a name of acme/toy (acme/toy/toy-Q8_0.gguf).\nTry: recua run toys -p "Hello"\n' });
  t.match(await call('cp', 'toys', 'again'), { code: 0, stdout: /^again is now a name of acme\/toy/ });
  t.equal(statSync(join(folder, 'hub')).mtimeMs, before);
  t.match(await call('run', 'again', '-p', 'Hi', '-n', '2', '-q'), { code: 0 });
  t.equal((await call('alias')).stdout, 'ALIAS  MODEL     STATE\nagain  acme/toy\ntoys   acme/toy\n');
  t.strictSame(JSON.parse((await call('alias', '--json')).stdout).aliases[0], { alias: 'again', model: 'acme/toy', repo: 'acme/toy', file: 'toy-Q8_0.gguf', imported: false });
  t.match(await call('list'), { stdout: /^acme\/toy .* again, toys$/m });
});

t.test('a taken alias is moved only by force, and removing it leaves the model', async (t) => {
  const call = homeOf(t.testdir());
  await call('alias', 'toys', 'acme/toy');
  t.match(await call('alias', 'toys', 'acme/toy'), { code: 0 }, 'the same again is no error');
  t.match(await call('cp', 'acme/other', 'toys'), { code: 1, stderr: /The alias toys names acme\/toy\/toy-Q8_0\.gguf already.*--force/ });
  t.match(await call('cp', 'acme/other', 'toys', '--force'), { code: 0 });
  t.match(await call('alias'), { stdout: /^toys +acme\/other$/m });
  t.match(await call('alias', '--rm', 'tois'), { code: 1, stderr: /There is no alias tois\. Did you mean toys\?/ });
  t.match(await call('alias', '--rm', 'toys'), { code: 0, stderr: 'toys is no longer an alias; its model stays.\n' });
  t.match(await call('alias', 'toys', 'acme/toy'), { code: 0 });
  t.match(JSON.parse((await call('alias', '--rm', 'toys', '--json')).stdout), { removed: ['toys'] });
  t.match(await call('cp', 'acme/other', 'toys'), { code: 0 });
  t.match(await call('rm', '-y', 'toys'), { code: 0, stdout: /the alias toys/ });
  t.match(await call('list'), { stdout: /^acme\/other /m }, 'rm of it leaves the model, too');
  await call('cp', 'acme/other', 'toys');
  await call('rm', '-y', 'acme/other');
  t.match(await call('alias'), { code: 0, stderr: /no aliases/ }, 'it goes with its model');
});

t.test('a model that cannot have an alias is refused, with what to do', async (t) => {
  const folder = t.testdir();
  const call = homeOf(folder);
  copyFileSync(builtinPath, join(folder, 'mine.gguf'));
  t.match(await call('cp', 'mine.gguf', 'x'), { code: 1, stderr: /outside of the store.*recua import \/.*\/mine\.gguf --alias x/ });
  copyFileSync(builtinPath, join(folder, "my mother's.gguf"));
  t.match(await call('cp', "my mother's.gguf", 'x'), { code: 1, stderr: /recua import '\/.*\/my mother'\\''s\.gguf' --alias x/ });
  await call('import', 'mine.gguf', '--alias', 'mine');
  t.match(await call('cp', 'mine', 'x'), { code: 0 }, 'an alias wins over a file of that name without .gguf');
  writeFileSync(join(folder, 'own.gguf'), model('own'));
  t.match(await call('import', 'own.gguf', '--alias', 'own'), { code: 0 });
  const listed = (await call('alias')).stdout;
  t.match(listed, /^own +\S+ +imported: recua rm of this name removes the model$/m);
  t.match(listed, /^mine +acme\/toy$/m, 'the store had this one before');
  t.match(await call('cp', 'builtin', 'x'), { code: 1, stderr: /The built-in model has the name builtin/ });
  t.match(await call('cp', 'acme/none', 'x'), { code: 1, stderr: /There is no model acme\/none.*recua list shows the models that an alias can name.* download one: recua pull acme\/none\n$/ }, 'the command is last');
  t.match(await call('alias', 'x', 'acme/none:Q8_0'), { code: 1, stderr: /adds a file of your own\. To download it: recua pull acme\/none:Q8_0\n$/ });
  t.match(await call('alias', 'x', 'acme/none:a b'), { code: 1, stderr: /To download it: recua pull 'acme\/none:a b'\n$/ });
  t.match(await call('cp', 'acme/toy@main', 'x'), { code: 1, stderr: /without @main/ });
  t.match(await call('cp', 'acme/toy', 'a/b'), { code: 2, stderr: /Expected 1 to 64 letters/ });
  t.match(await call('cp', 'acme/toy', 'builtin'), { code: 2, stderr: /Recua uses the name builtin itself/ });
  for (const args of [['cp'], ['cp', 'a'], ['cp', 'a', 'b', 'c'], ['alias', 'a'], ['alias', '--rm']]) t.match(await call(...args), { code: 2 }, args.join(' '));
});
