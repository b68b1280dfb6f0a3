#!/usr/bin/env node
// The command line's front door. Forks the engine process of a command that will need one before it
// imports anything else, so that the process is ready when the command has read its flags and found
// its model.
import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Needs } from '../engine/confinement/rules.js';
import { dropSpare, forkSpare } from '../engine/gateway/spare-process.js';
import { findPlaces } from '../models/places.js';

const withEngine = new Set(['run', 'chat', 'api']);
/**
 * A call with one of these computes nothing. `-h` may be the host of `api`, which then starts as if
 * this file forked nothing.
 */
const withoutEngine = ['--help', '-h', '--list-devices'];

/** A call with one of these may want a process that drivers can do what they like in. */
const unconfined = /^(--gpu-layers|-ngl|--n-gpu-layers|--device|-dev|--require-gpu|--sandbox)\b/;

/** Runs one command line (without node and script) and returns the exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  if (withEngine.has(argv[0] ?? '') && !argv.some((word) => withoutEngine.includes(word))) {
    forkSpare(argv.some((word) => unconfined.test(word)) ? undefined : likelyNeeds(argv));
  }
  try {
    const { call } = await import('./call.js');
    return await call(argv);
  } finally {
    dropSpare();
  }
}

/** What an engine of this call will probably read and write. */
function likelyNeeds(argv: readonly string[]): Needs {
  const { hub, sessions } = findPlaces();
  return { reads: [hub, ...argv.filter((word) => word.endsWith('.gguf')).map((word) => resolve(word))], writes: argv[0] === 'chat' ? [sessions] : [], gpu: false };
}

const script = process.argv[1];
if (script !== undefined && realpathSync(script) === fileURLToPath(import.meta.url)) {
  process.exitCode = await main(process.argv.slice(2));
}
