#!/usr/bin/env node
// Entry point of the command line. If the command will need an engine process, it forks the process
// before it imports anything else, so that the process is ready once the command has read its flags
// and found its model.
import { closeSync, openSync, realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { isatty } from 'node:tty';
import { fileURLToPath } from 'node:url';
import type { Needs } from '../engine/confinement/rules.js';
import { dropSpare, forkSpare } from '../engine/gateway/spare-process.js';
import { findPlaces } from '../models/places.js';

const withEngine = new Set(['run', 'chat', 'api']);
/**
 * Calls with one of these compute nothing. `-h` may also be the host of `api`, which then starts
 * without a process forked ahead.
 */
const withoutEngine = ['--help', '-h', '--list-devices'];

/** Calls with one of these may need an unconfined process, for GPU drivers. */
const unconfined = /^(--gpu-layers|-ngl|--n-gpu-layers|--device|-dev|--require-gpu|--sandbox)\b/;

/** Runs one command line (without node and script) and returns the exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  // Some daemons reopen their logs on these, so people and logrotate send them. Node would open its
  // debugger to every user of the machine on the first, and end on the second.
  for (const name of argv[0] === 'api' ? ['SIGUSR1', 'SIGUSR2'] as const : ['SIGUSR1'] as const) process.on(name, () => undefined);
  if (withEngine.has(argv[0] ?? '') && !argv.some((word) => withoutEngine.includes(word))) forkAhead(argv);
  try {
    const { call } = await import('./call.js');
    return await call(argv);
  } finally {
    dropSpare();
  }
}

function forkAhead(argv: readonly string[]): void {
  try {
    forkSpare(argv.some((word) => unconfined.test(word)) ? undefined : likelyNeeds(argv));
  } catch { /* There is no home folder; the command says so if it needs one. */ }
}

/** What this call's engine will probably read and write. */
function likelyNeeds(argv: readonly string[]): Needs {
  const { hub, sessions } = findPlaces();
  return { reads: [hub, ...argv.filter((word) => word.endsWith('.gguf')).map((word) => resolve(word))], writes: argv[0] === 'chat' ? [sessions] : [], gpu: false };
}

/**
 * At its end Node resets the terminal's settings, and aborts if the terminal has been closed. Then
 * there is nothing to reset: /dev/null takes the terminal's place.
 */
function endWithoutTerminal(): void {
  const terminals = process.platform === 'win32' ? [] : [0, 1, 2].filter((fd) => isatty(fd));
  process.on('exit', () => {
    for (const fd of terminals.filter((one) => !isatty(one))) {
      try {
        closeSync(fd);
        openSync('/dev/null', 'r+');
      } catch { /* It is closed already. */ }
    }
  });
}

const script = process.argv[1];
if (script !== undefined && realpathSync(script) === fileURLToPath(import.meta.url)) {
  endWithoutTerminal();
  const argv = process.argv.slice(2);
  process.exitCode = await main(argv);
  // Lines of the log that nobody reads must not keep the process of a server that has ended.
  if (argv[0] === 'api') setTimeout(() => process.exit(), 1_000).unref();
}
