// One set-up or test run at a time: two in one folder would spoil each other.
import { mkdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { isAlive } from './process.mjs';
import { say } from './progress.mjs';

const pollMs = 500;
const touchMs = 5_000;
/** A lock that nobody touched for so long is left over, even if its process id is in use again. */
const abandonedMs = 60_000;

function tell(other) {
  say(`Another set-up runs in this folder (pid ${other}); waiting for it.`);
}

/**
 * Waits until no other process holds the lock file, and takes it. Returns a function that releases
 * it. `meet` is called with the process id of another holder; it may throw instead of waiting.
 */
export async function oneAtATime(path, meet = tell) {
  mkdirSync(dirname(path), { recursive: true });
  let told;
  while (!await take(path)) {
    const other = holder(path);
    if (other === undefined) {
      rmSync(path, { force: true });
      continue;
    }
    if (other > 0 && other !== told) meet(other);
    told = other;
    await wait(pollMs);
  }
  const timer = setInterval(() => {
    try {
      utimesSync(path, new Date(), new Date());
    } catch { /* Somebody removed build/. */ }
  }, touchMs);
  timer.unref();
  const release = () => {
    clearInterval(timer);
    if (read(path) === process.pid) rmSync(path, { force: true });
  };
  process.once('exit', release);
  return () => {
    process.off('exit', release);
    release();
  };
}

async function take(path) {
  try {
    writeFileSync(path, `${process.pid}\n`, { flag: 'wx' });
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
  // Two processes may both have removed a leftover.
  await wait(50);
  return read(path) === process.pid;
}

/** The process id in the lock file; NaN if it is being written, undefined without a file. */
function read(path) {
  try {
    return Number.parseInt(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

/** The process that holds the lock; undefined if it is dead, or nobody does; NaN as in read(). */
function holder(path) {
  const pid = read(path);
  const touchedMs = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (pid === undefined || pid === process.pid || Date.now() - touchedMs > abandonedMs) return undefined;
  return Number.isNaN(pid) || isAlive(pid) ? pid : undefined;
}
