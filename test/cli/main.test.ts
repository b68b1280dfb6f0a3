import t from 'tap';
import { readFileSync, symlinkSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { allCommands, commandNames } from '#recua/cli/table.js';
import { mainPath, recua, root } from './recua.js';

const all = await allCommands();

t.test('recua without a command explains itself on stdout', async (t) => {
  const { code, stdout, stderr } = await recua([]);
  t.equal(code, 0);
  t.match(stdout, /Usage: recua <command>/);
  t.equal(stderr, '');
});

t.test('help lists the commands that exist, and only those', async (t) => {
  const { stdout } = await recua(['help']);
  const listed = /Commands\n([^]*?)\n\n/.exec(stdout)![1]!.split('\n').filter((line) => /^ {2}\S/.test(line)).map((line) => line.trim().split(/\s/)[0]);
  t.same(listed, all.map(({ name }) => name));
  t.same(commandNames, all.map(({ name, aliases }) => [name, ...aliases]), 'the table finds each by the names that it has itself');
  t.equal((await recua(['-h'])).stdout, stdout);
  t.equal((await recua(['--help'])).stdout, stdout);
});

t.test('help of a command names each of its flags with its default', async (t) => {
  const { code, stdout } = await recua(['help', 'api']);
  t.equal(code, 0);
  for (const flag of ['-m, --model', '-p, --port <n>', '-h, --host', '-c, --ctx-size', '-n, --max-tokens', '-ngl, --gpu-layers', '--temp']) {
    t.ok(stdout.includes(flag), flag);
  }
  t.match(stdout, /--port <n> .*default 8080/);
  t.match(stdout, /--host <address> .*default 127\.0\.0\.1/);
  t.equal((await recua(['api', '--help'])).stdout, stdout, 'the same as api --help');
  t.match((await recua(['run', '-h'])).stdout, /default 512/, 'run -h is help');
});

t.test('api -h is the host, not help', async (t) => {
  const { code, stderr } = await recua(['api', '-h']);
  t.equal(code, 2);
  t.match(stderr, /-h needs a value: -h <address>/);
});

t.test('version prints the version of the package and of the pinned llama.cpp', async (t) => {
  const read = (file: string) => JSON.parse(readFileSync(join(root, file), 'utf8')) as { version: string };
  const expected = `recua ${read('package.json').version} (llama.cpp ${read('vendor/llama.cpp.json').version})\n`;
  t.strictSame(JSON.parse((await recua(['version', '--json'])).stdout), { version: read('package.json').version, llama_cpp: read('vendor/llama.cpp.json').version });
  t.equal((await recua(['version', 'x'])).code, 2);
  for (const word of ['version', '--version', '-v']) {
    const { code, stdout, stderr } = await recua([word]);
    t.strictSame({ code, stdout, stderr }, { code: 0, stdout: expected, stderr: '' });
  }
});

t.test('an unknown command exits 2 and names the nearest one', async (t) => {
  const { code, stdout, stderr } = await recua(['shwo']);
  t.equal(code, 2);
  t.equal(stdout, '');
  t.match(stderr, /no command shwo\. Did you mean show\?/);
  t.match((await recua(['help', 'rnu'])).stderr, /Did you mean run\?/);
});

t.test('an unknown flag exits 2 and names the nearest one', async (t) => {
  const { code, stdout, stderr } = await recua(['api', 'builtin', '--prot', '80']);
  t.equal(code, 2);
  t.equal(stdout, '');
  t.match(stderr, /api has no flag --prot\. Did you mean --port\?/);
});

t.test('a number out of range exits 2 with the range', async (t) => {
  const { code, stderr } = await recua(['api', 'builtin', '--port', '65536']);
  t.equal(code, 2);
  t.match(stderr, /from 0 to 65535 for --port, got "65536"/);
});

t.test('recua works through a symbolic link, as npm installs it', async (t) => {
  const link = join(t.testdir(), 'recua');
  symlinkSync(mainPath, link);
  t.match(spawnSync(process.execPath, [link, 'version'], { encoding: 'utf8' }), { status: 0, stdout: /^recua / });
});
