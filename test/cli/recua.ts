// Runs the built command line as a user does: a real child process with pipes.
import { spawn } from 'node:child_process';
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const mainPath = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

/** No config file: the user's own must not change the tests. */
const noConfig = fileURLToPath(new URL('./no-config', import.meta.url));

/** A call without a home gets one of this test, where it finds no other server. */
const homeNames = ['SERVICE_HOME', 'HF_HOME', 'HUB_HOME', 'HF_HUB_CACHE', 'XDG_CACHE_HOME', 'XDG_DATA_HOME', 'HOME'];
let ownHome: string | undefined;

export function withHome(env: Record<string, string>): Record<string, string> {
  if (homeNames.some((name) => name in env)) return env;
  if (ownHome === undefined) {
    const made = ownHome = mkdtempSync(join(tmpdir(), 'recua-tests-'));
    process.once('exit', () => rmSync(made, { recursive: true, force: true }));
  }
  return { ...env, SERVICE_HOME: ownHome };
}

export interface Result {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

export interface Running {
  child: ChildProcessWithoutNullStreams;
  /** Output so far. */
  stdout(): string;
  stderr(): string;
  /** Resolves when stderr or stdout holds the pattern; rejects if the process ends first. */
  saw(pattern: RegExp): Promise<RegExpExecArray>;
  ended: Promise<Result>;
}

export interface Options {
  cwd?: string;
  env?: Record<string, string>;
  /** Address space of each process, in KiB; absent means no limit. */
  addressKib?: number;
  /**
   * Without the modules that the test runner makes its children load, which take memory. Not on
   * Windows.
   */
  bare?: boolean;
  /** Runs another installation. */
  main?: string;
  /** A command that runs the rest of its command line. */
  through?: readonly string[];
}

export function start(
  args: readonly string[],
  { cwd = root, env = {}, addressKib, bare = false, main = mainPath, through = [] }: Options = {},
): Running {
  const plain = [process.execPath, main, ...args] as const;
  const command = bare ? (['env', '-u', 'NODE_OPTIONS', ...plain] as const) : plain;
  const [file, ...rest] =
    addressKib === undefined
      ? ([...through, ...command] as unknown as typeof command)
      : (['sh', '-c', 'ulimit -v "$0" && exec "$@"', String(addressKib), ...command] as const);
  const child = spawn(file, rest, { cwd, env: { ...process.env, XDG_CONFIG_HOME: noConfig, ...withHome(env) }, stdio: 'pipe' });
  let stdout = '';
  let stderr = '';
  const watchers = new Set<() => void>();
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    for (const watch of watchers) watch();
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
    for (const watch of watchers) watch();
  });
  child.stdin.on('error', () => {
    /* It ended without reading all of it. */
  });
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, stdout, stderr }) as Result);
  const saw = (pattern: RegExp) =>
    new Promise<RegExpExecArray>((resolve, reject) => {
      const watch = () => {
        const match = pattern.exec(stderr) ?? pattern.exec(stdout);
        if (!match) return;
        watchers.delete(watch);
        resolve(match);
      };
      watchers.add(watch);
      watch();
      void ended.then(() => reject(new Error(`recua ended without saying ${pattern}:\n${stderr}${stdout}`)));
    });
  return { child, stdout: () => stdout, stderr: () => stderr, saw, ended };
}

/** Runs to the end; `input` is all of stdin. */
export async function recua(args: readonly string[], input = '', options: Options = {}): Promise<Result> {
  const running = start(args, options);
  running.child.stdin.end(input);
  return await running.ended;
}
