// Child processes of the scripts: runs one and reads its lines, or captures its output.
import { spawn, spawnSync } from 'node:child_process';
import { basename } from 'node:path';
import { root } from './place.mjs';

/** A failure that needs no stack trace. */
export class Failure extends Error {}

const tailLength = 60;

/**
 * The environment without git's variables for hooks, which would point our git calls at the wrong
 * repository.
 */
export function cleanEnv() {
  const env = { ...process.env };
  for (const name of ['GIT_DIR', 'GIT_WORK_TREE', 'GIT_INDEX_FILE', 'GIT_PREFIX', 'GIT_OBJECT_DIRECTORY']) delete env[name];
  return env;
}

/**
 * Runs a command to its end. Passes its output to `onLine` line by line instead of showing it; if
 * it fails, the error holds its last lines.
 */
export function run(command, args, { cwd = root, env = cleanEnv(), onLine = () => {}, shell = false } = {}) {
  return new Promise((done, fail) => {
    const child = spawn(command, args, { cwd, env, shell, stdio: ['ignore', 'pipe', 'pipe'], windowsHide: true });
    const tail = [];
    const watch = (stream) => {
      let rest = '';
      stream.setEncoding('utf8');
      stream.on('data', (text) => {
        const lines = (rest + text).split(/\r\n|\r|\n/);
        rest = lines.pop();
        for (const line of lines) take(line);
      });
      stream.on('end', () => rest && take(rest));
    };
    const take = (line) => {
      tail.push(line);
      if (tail.length > tailLength) tail.shift();
      onLine(line);
    };
    watch(child.stdout);
    watch(child.stderr);
    child.on('error', (error) => fail(new Failure(`${command} cannot be started: ${error.message}`)));
    child.on('close', (code, signal) => {
      if (code === 0) return done();
      const how = signal ? `was ended by ${signal}` : `failed with exit code ${code}`;
      fail(new Failure(`${commandName(command, args)} ${how}. Its last lines:\n\n${tail.map((line) => `    ${line}`).join('\n')}\n`));
    });
  });
}

/** A command's short name: for a script that Node runs, the script's name. */
function commandName(command, args) {
  return command === process.execPath ? basename(args[0]).replace(/\.c?js$/, '') : `${command} ${args[0] ?? ''}`.trim();
}

/** Runs a command in our terminal; resolves with its exit code. */
export function show(command, args, { cwd = root, env = cleanEnv() } = {}) {
  return new Promise((done, fail) => {
    const child = spawn(command, args, { cwd, env, stdio: 'inherit', windowsHide: true });
    child.on('error', (error) => fail(new Failure(`${command} cannot be started: ${error.message}`)));
    child.on('close', (code, signal) => done(signal === 'SIGINT' ? 130 : (code ?? 1)));
  });
}

/** Whether a process with this id runs, also another user's. */
export function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/** A short command's output (both streams), or undefined if it is missing or fails. */
export function capture(command, args, { cwd = root, input, shell = false } = {}) {
  const result = spawnSync(command, args, { cwd, input, shell, env: cleanEnv(), encoding: 'utf8', windowsHide: true, maxBuffer: 64 * 1024 * 1024 });
  return result.error || result.status !== 0 ? undefined : `${result.stdout}${result.stderr}`.trim();
}

/**
 * A command's stdout.
 * @throws Failure with its stderr
 */
export function output(command, args, { cwd = root, env = cleanEnv(), shell = false } = {}) {
  const { error, status, stdout, stderr } = spawnSync(command, args, { cwd, env, shell, encoding: 'utf8', windowsHide: true, maxBuffer: 64 * 1024 * 1024 });
  if (error || status !== 0) throw new Failure(`${commandName(command, args)} failed: ${error?.message ?? (stderr.trim() || stdout.trim())}`);
  return stdout;
}

/** Command and arguments for npm: the one that runs this script, else the one in PATH. */
export function npm(args) {
  const cli = process.env.npm_execpath;
  if (cli && /npm-cli\.c?js$/.test(cli)) return { command: process.execPath, args: [cli, ...args], shell: false };
  // npm is a batch file on Windows, which Node starts only through a shell.
  return { command: 'npm', args, shell: process.platform === 'win32' };
}

/** npm's configured registry, with a trailing slash. */
export function npmRegistry() {
  const { command, args, shell } = npm(['config', 'get', 'registry', '--silent']);
  const url = /https?:\/\/\S+/.exec(capture(command, args, { shell }) ?? '')?.[0];
  if (!url) throw new Failure('npm does not say which registry it uses: `npm config get registry`.');
  return url.replace(/\/*$/, '/');
}
