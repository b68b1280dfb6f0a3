// However a command ends, native code does not end it: exit codes are those of docs/cli.md, and no
// engine process is left.
import t from 'tap';
import type { Test } from 'tap';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, readdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { fakeBackend } from '../native/fake-backend.js';
import { base, basePackage, flatLayout } from '../native/installed.js';
import { endless } from './chat/chats.js';
import { makeHome, until } from './home.js';
import { Pty } from './pty.js';

const skip = process.platform !== 'linux';
/** Rounds per case. More rounds find rarer failures. */
const rounds = Number(process.env['RECUA_EXIT_ROUNDS'] ?? 3);
/** Takes long to read, and is stopped before its answer ends. */
const prompt = 'word '.repeat(3000);

interface Installed {
  main: string;
  env: NodeJS.ProcessEnv;
}

/**
 * With a GPU backend loaded from its library, so that not only the compiled-in backend has to exit
 * cleanly.
 */
function install(t: Test): Installed {
  const { env } = makeHome(t);
  const library = fakeBackend({ devices: 1 });
  const folder = flatLayout(realpathSync(t.testdir()), [basePackage, { name: `${base}-fake`, backend: 'fake', library }]);
  return { main: join(folder, 'dist', 'cli', 'main.js'), env: { ...process.env, RECUA_ADDON: '', ...env } };
}

/** Processes that run a file of this installation. */
function left(main: string): string[] {
  const folder = join(main, '..', '..');
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
    try {
      const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      return line.includes(folder) ? [`${pid} ${line.replaceAll('\0', ' ')}`] : [];
    } catch {
      return [];
    }
  });
}

interface Begun {
  child: ChildProcess;
  stdout(): string;
  stderr(): string;
  /** The exit status as a shell reports it. */
  end: Promise<string>;
}

function begin({ main, env }: Installed, ...args: string[]): Begun {
  const child = spawn(process.execPath, [main, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const end = once(child, 'close').then(([code, signal]) => `${(signal as string | null) ?? (code as number)}`);
  return { child, stdout: () => stdout, stderr: () => stderr, end };
}

const run = ['run', 'builtin', '--temp', '0', '--threads', '1', '-c', '4096'];

t.test('commands that answer exit with 0, on the CPU or another device', { skip }, async (t) => {
  const installed = install(t);
  for (let round = 0; round < rounds; round++) {
    for (const device of ['none', 'FAKE0']) {
      const { end, stdout, stderr } = begin(installed, ...run, '-p', 'Hello', '-n', '3', '--device', device);
      t.equal(await end, '0', stderr());
      t.match(stdout(), /\w\n$/);
      t.notMatch(stderr(), /died|GGML_ASSERT|terminate called/);
    }
  }
  await until(() => left(installed.main).length === 0);
});

t.test('Ctrl-C or SIGTERM during loading, prefill and decoding exits with 130 or 143, quietly, and leaves no process', { skip }, async (t) => {
  const installed = install(t);
  const phases: Record<string, { args: string[]; ripe(begun: Begun): boolean }> = {
    'before the engine has said a word': { args: ['-p', 'Hello'], ripe: ({ stderr }) => stderr().includes('Loading') },
    'while it reads the prompt': { args: ['-p', prompt], ripe: ({ child, stderr }) => stderr().includes('Loading') && busy(child.pid!) },
    'while it answers': { args: ['-p', 'Tell me a long story.', ...endless], ripe: ({ stdout }) => stdout().length > 20 },
  };
  for (let round = 0; round < rounds; round++) {
    for (const [phase, { args, ripe }] of Object.entries(phases)) {
      const [signal, code] = round % 2 === 0 ? ['SIGINT', '130'] as const : ['SIGTERM', '143'] as const;
      const begun = begin(installed, ...run, ...args);
      await until(() => ripe(begun) || begun.child.exitCode !== null);
      begun.child.kill(signal);
      t.equal(await begun.end, code, `${phase}: ${begun.stderr()}`);
      t.notMatch(begun.stderr(), /died|GGML_ASSERT|terminate called|Error:|error:|failed/, phase);
    }
  }
  await until(() => left(installed.main).length === 0);
});

/** Whether the engine process of a command maps the model, which means that the load has begun. */
function busy(pid: number): boolean {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter((one) => one !== '');
  return children.some((one) => {
    try {
      return readFileSync(`/proc/${one}/maps`, 'utf8').includes('builtin.gguf');
    } catch {
      return false;
    }
  });
}

t.test('a command that is killed takes its engine process with it', { skip }, async (t) => {
  const installed = install(t);
  for (let round = 0; round < rounds; round++) {
    const begun = begin(installed, ...run, '-p', 'Tell me a long story.', ...endless);
    await until(() => begun.stdout().length > 20 || begun.child.exitCode !== null);
    begun.child.kill('SIGKILL');
    t.equal(await begun.end, 'SIGKILL');
    await until(() => left(installed.main).length === 0);
  }
});

t.test('a server stopped at any moment exits with 0', { skip }, async (t) => {
  const installed = install(t);
  const waits: ((begun: Begun) => boolean)[] = [
    ({ stderr }) => stderr().includes('Loading'), ({ child }) => busy(child.pid!), ({ stderr }) => stderr().includes('Computes on'), ({ stderr }) => stderr().includes('listens'),
  ];
  for (let round = 0; round < rounds; round++) {
    for (const ripe of waits) {
      const begun = begin(installed, 'api', 'builtin', '--port', '0', '-c', '256', '--threads', '1');
      await until(() => ripe(begun) || begun.child.exitCode !== null);
      begun.child.kill(round % 2 === 0 ? 'SIGTERM' : 'SIGINT');
      t.equal(await begun.end, '0', begun.stderr());
      t.notMatch(begun.stderr(), /died|GGML_ASSERT|terminate called/);
    }
  }
  await until(() => left(installed.main).length === 0);
});

t.test('a terminal that is closed in an answer ends it with 129', { skip }, async (t) => {
  const { env } = makeHome(t);
  const pty = new Pty(['run', 'builtin', 'Tell me a story', '--local', '-q', ...endless], { env });
  t.teardown(() => pty.dispose());
  await pty.until(/\w{3}/);
  pty.hangUp();
  t.match(await pty.ended, { exitCode: 129, signal: 0 });
});
