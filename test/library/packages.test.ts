// The package as its users see it: exports and types for ES modules and CommonJS, examples,
// reference.
import { execFile, spawn, spawnSync } from 'node:child_process';
import { cpSync, readFileSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';

const root = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);
const bin = (path: string) => join(root, 'node_modules', path);

t.test('publint finds nothing', async (t) => {
  const { publint } = await import('publint');
  t.same((await publint({ pkgDir: root, strict: true })).messages, []);
});

t.test('the types resolve for every way of importing', async (t) => {
  const { stdout } = await run(process.execPath, [bin('@arethetypeswrong/cli/dist/index.js'), '--pack', root, '--format', 'json', '--entrypoints', '.'], { cwd: root, maxBuffer: 2 ** 26 });
  const { analysis, problems = {} } = JSON.parse(stdout) as { analysis: { problems: unknown[]; types: unknown }; problems?: object };
  t.ok(analysis.types);
  t.same([analysis.problems, problems], [[], {}]);
});

/** The published declarations, and what any TypeScript project on Node has besides them. */
function typesProject(t: Test, files: Record<string, string>): string {
  const folder = t.testdir({ 'package.json': '{}', ...files });
  const modules = join(folder, 'node_modules');
  cpSync(join(root, 'dist'), join(modules, 'recua', 'dist'), { recursive: true, filter: (path) => !/\.(js|cjs|map|tsbuildinfo)$/.test(path) });
  cpSync(join(root, 'package.json'), join(modules, 'recua', 'package.json'));
  for (const name of ['@types/node', 'undici-types']) cpSync(join(root, 'node_modules', name), join(modules, name), { recursive: true });
  return folder;
}

const typed = `
  const model: Model = await loadModel('builtin', { isolated: false });
  const schema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] } as const;
  const { object } = await model.chat('x', { schema });
  const name: string = object.name;
  // @ts-expect-error: there is no such property
  void object.age;
  // @ts-expect-error: there is no such option
  void model.chat('x', { temprature: 1 });
  model.on('crashed', (error) => { const code: ErrorCode = error.code; void code; });
  for await (const { content } of model.chat('x')) { const text: string | undefined = content; void text; }
  const vectors: [Float32Array, Float32Array[]] = [await model.embed('x'), await model.embed(['x'])];
  const weather = tool({ parameters: schema, execute: ({ name }) => name.toUpperCase() });
  void model.chat('x', { tools: { weather, other: { description: 'x' } } });
  const reply: Reply<ChatResult> = model.chat('x');
  try { await reply; } catch (error) { if (error instanceof RecuaError) { const status: number = error.status; void status; } }
  createServer(model).listen(0);
  void [name, vectors];
`;
const types = 'ChatResult, ErrorCode, Model, Reply';

t.test('a TypeScript program compiles, as an ES module and as CommonJS, with no types but Node\'s and without skipLibCheck', async (t) => {
  const folder = typesProject(t, {
    'esm.mts': `import { createServer, loadModel, RecuaError, tool, type ${types.replaceAll(', ', ', type ')} } from 'recua';\n${typed}`,
    'cjs.cts': `import { createServer, loadModel, RecuaError, tool, type ${types.replaceAll(', ', ', type ')} } from 'recua';\nexport async function main() {${typed}}`,
    'require.cts': `import recua = require('recua');\nexport const model: Promise<recua.Model> = recua.loadModel('builtin');`,
    'tsconfig.json': JSON.stringify({
      compilerOptions: { target: 'es2022', lib: ['es2022', 'esnext.disposable'], module: 'node16', strict: true, noEmit: true, types: ['node'], skipLibCheck: false },
      include: ['*.mts', '*.cts'],
    }),
  });
  const { status, stdout } = spawnSync(process.execPath, [bin('typescript/lib/tsc.js'), '-p', folder], { encoding: 'utf8' });
  t.strictSame({ status, stdout }, { status: 0, stdout: '' });
});

t.test('import and require() give the same names, with the same types', async (t) => {
  const esm = Object.keys(await import('recua')).sort();
  const { stdout } = await run(process.execPath, ['-p', 'Object.keys(require("recua")).sort().join()'], { cwd: root });
  t.same(stdout.trim().split(','), esm);
  const exported = (file: string, pattern: RegExp) => [...readFileSync(join(root, 'dist', file), 'utf8').matchAll(pattern)].flatMap(([, names]) => names.split(/,\s*/)).sort();
  const esmTypes = exported('index.d.ts', /export type \{ ([^}]+) \}/g);
  t.same(exported('index.d.cts', /^ +type (\w+)/gm).filter((name) => name !== 'RecuaError'), esmTypes);
  t.ok(esmTypes.length > 20);
});

t.test('require() and import share one library, errors included', async (t) => {
  const source = `
    const { loadModel, createServer, RecuaError, tool } = require('recua');
    (async () => {
      const own = tool({ execute() {} });
      const model = await loadModel('builtin', { isolated: false });
      const esm = await import('recua');
      const error = await loadModel('no-such-model').catch((error) => error);
      const made = new RecuaError('closed', 'x');
      console.log(JSON.stringify([
        typeof own.execute, (await model.chat('Hello!', { temperature: 0 })).finishReason, error instanceof RecuaError, error instanceof esm.RecuaError,
        made instanceof esm.RecuaError, new Error('x') instanceof RecuaError, made.code, typeof createServer(model), typeof esm.createServer(model),
      ]));
      await model.dispose();
    })();`;
  const { stdout } = await run(process.execPath, ['-e', source], { cwd: root });
  t.same(JSON.parse(stdout), ['function', 'stop', true, true, true, false, 'closed', 'function', 'function']);
});

/** The output of each example. */
const examples: Record<string, RegExp> = {
  'chat.js': /^> My name is Ada\.\n.+\n> What is my name\?\n.*Ada/,
  'commonjs.cjs': /^I'm the small model/,
  'models.js': /^I'm the small model.*\n\d+ numbers say so, too\n$/,
  'object.js': /^Ana will be 8 next year\.\n$/,
  'search.js': /^0\.\d{3} The llama.*\n.*\n.*\n$/,
  'stream.js': /\S{20}|Too slow|tokens in/,
  'tools.js': /Sunny in Paris, 21 degrees/,
  'worker.js': /^Hello!.*\nI'm the small model/,
};

t.test('every example runs', async (t) => {
  t.same(readdirSync(join(root, 'examples')).sort(), [...Object.keys(examples), 'express.js'].sort());
  for (const [file, expected] of Object.entries(examples)) {
    const { stdout, stderr } = await run(process.execPath, [join(root, 'examples', file)], { cwd: root });
    t.match(stdout, expected, file);
    if (file === 'models.js') t.equal(stderr, 'chat: loading\nchat: loaded\nembed: loading\nembed: loaded\n', 'each state once');
  }
});

t.test('the Express example serves, as its own line says', async (t) => {
  const child = spawn(process.execPath, [join(root, 'examples', 'express.js')], { env: { ...process.env, PORT: '0' }, stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => child.kill('SIGKILL'));
  let text = '';
  for await (const chunk of child.stdout) {
    text += String(chunk);
    if (text.includes('\n')) break;
  }
  const [, url, body] = /curl (\S+) .*-d '(.*)'/.exec(text)!;
  const reply = await (await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })).json() as { choices: { finish_reason: string }[] };
  t.equal(reply.choices[0].finish_reason, 'stop');
  const ended = new Promise((resolve) => child.once('exit', (code) => resolve(code)));
  child.kill('SIGTERM');
  t.equal(await ended, 0);
});

t.test('docs/library.md names every example; its first one runs, and stands in the README', async (t) => {
  const page = readFileSync(join(root, 'docs', 'library.md'), 'utf8');
  for (const file of [...Object.keys(examples), 'express.js']) t.ok(page.includes(`(../examples/${file})`), file);
  const [, source] = /## Load a model[\s\S]*?```js\n([\s\S]*?)```/.exec(page)!;
  t.ok(readFileSync(join(root, 'README.md'), 'utf8').includes(source));
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', source], { cwd: root, encoding: 'utf8' });
  t.match(stdout, /\S/);
  t.match(source, /loadModel/);
});

t.test('docs/api.md matches the docstrings', async (t) => {
  const { apiReference } = await import(pathToFileURL(join(root, 'scripts', 'api-docs.mjs')).href) as { apiReference(): Promise<string> };
  const page = await apiReference();
  t.equal(readFileSync(join(root, 'docs', 'api.md'), 'utf8') === page, true, 'npm run docs writes docs/api.md anew');
  for (const name of Object.keys(await import('recua'))) t.match(page, new RegExp(`^### ${basename(name)}\\b`, 'm'));
});
