// Remembered results of proofs, for one processor, kernel and set of native files: in a small file
// in the state folder, and for a clone's build also in one beside the build, which set-up writes.
// Read before each engine process, so reading and writing are synchronous. If two processes write
// at the same time, one result may be lost; it is then proved again.
import { createHash } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readFileSync, readSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { dirname, join } from 'node:path';
import { addonPlaces, cpuLibrary, findPackages } from '../../addon/places.js';
import type { Refused } from '../../addon/refused.js';
import { findPlaces } from '../../models/places.js';
import { createFolderSync } from '../../system/create-folder.js';
import { ownInstallation } from '../../system/installation.js';

/** The results for the native files as they are now. */
export interface Proof {
  /** Hash of processor, kernel and files. */
  key: string;
  /** Families that the library in use has proved. */
  proved: readonly string[];
  refused: Refused;
  /** When, in milliseconds since 1970. */
  timeMs: number;
  /** From then on, all is proved anew: a library was too slow, but so the machine may have been. */
  untilMs?: number | undefined;
}

const fileName = 'cpu-proof.json';
const mostBytes = 256 * 1024;
const mostEntries = 16;

/** Undefined if there is no addon to prove. `beside`: use only the results kept with a build. */
export function remembered(beside = false): Proof | undefined {
  const place = addonPlace();
  if (place === undefined) return undefined;
  const key = keyOf(place.folder);
  const known = files(place)
    .slice(beside ? 1 : 0)
    .flatMap(readEntries)
    .filter((entry) => entry.key === key && Date.now() < (entry.untilMs ?? Infinity))
    .sort((a, b) => b.timeMs - a.timeMs);
  const [newest = { key, proved: [], refused: {}, timeMs: 0 }] = known;
  // Entries with other refused libraries are about another library than the one in use.
  const same = known.filter(({ refused }) => Object.keys(refused).sort().join('\n') === Object.keys(newest.refused).sort().join('\n'));
  return { ...newest, proved: [...new Set(same.flatMap(({ proved }) => proved))] };
}

/** Returns false if it could not be written: the next load then proves it again. */
export function remember(found: Omit<Proof, 'timeMs'>, beside = false): boolean {
  const proof: Proof = { ...found, timeMs: Date.now() };
  const place = addonPlace();
  if (place === undefined) return false;
  const path = beside ? join(place.folder, fileName) : stateFile();
  const entries = [proof, ...readEntries(path).filter(({ key }) => key !== proof.key)].slice(0, mostEntries);
  const begun = `${path}.${process.pid}`;
  try {
    createFolderSync(dirname(path), 0o700);
    try {
      writeFileSync(begun, `${JSON.stringify({ version: 1, entries }, null, 1)}\n`, { mode: beside ? 0o644 : 0o600, flag: 'wx' });
      renameSync(begun, path);
    } finally {
      rmSync(begun, { force: true });
    }
    return true;
  } catch {
    return false;
  }
}

/** Forgets the proofs, so that everything is proved again before its next use. */
export function forget(): void {
  const place = addonPlace();
  if (place === undefined) return;
  const key = keyOf(place.folder);
  for (const [at, path] of files(place).entries()) {
    const entry = readEntries(path).find((one) => one.key === key);
    if (entry && entry.proved.length > 0) remember({ ...entry, proved: [] }, at > 0);
  }
}

interface Place {
  folder: string;
  built: boolean;
}

function addonPlace(): Place | undefined {
  const installation = ownInstallation();
  const packages = findPackages(installation, { platform: process.platform, arch: process.arch });
  const place = addonPlaces(installation, packages, process.env).find(({ refusal }) => refusal === '');
  return place && { folder: dirname(place.path), built: place.source === 'build' };
}

function files({ folder, built }: Place): string[] {
  return [stateFile(), ...(built ? [join(folder, fileName)] : [])];
}

function stateFile(): string {
  return join(findPlaces().state, fileName);
}

function keyOf(folder: string): string {
  const native = namesIn(folder).filter((name) => name === 'recua.node' || cpuLibrary.test(name) || /ggml-base/.test(name)).sort();
  const marks = native.map((name) => {
    const { size, mtimeMs, ctimeMs } = statSync(join(folder, name), { throwIfNoEntry: false }) ?? { size: 0, mtimeMs: 0, ctimeMs: 0 };
    return [name, size, mtimeMs, ctimeMs];
  });
  return createHash('sha256').update(JSON.stringify([folder, marks, processor(), os.release(), ownInstallation().version])).digest('hex');
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

let known: string | undefined;

/** The processor: model, features and microcode. */
export function processor(): string {
  return known ??= process.platform === 'linux' ? describeCpu(head('/proc/cpuinfo')) : `${process.arch} ${os.cpus()[0]?.model ?? ''}`;
}

const describing = /^(vendor_id|cpu family|model|model name|stepping|microcode|flags|Features|CPU implementer|CPU architecture|CPU variant|CPU part|CPU revision|isa|uarch)\s*:/;

/** The lines that describe the first processor in the text of Linux's /proc/cpuinfo. */
function describeCpu(text: string): string {
  return text.split('\n\n')[0]!.split('\n').filter((line) => describing.test(line)).join('\n');
}

/**
 * Reads only the beginning: the kernel generates the file core by core, and the first is enough.
 */
function head(path: string): string {
  const bytes = Buffer.alloc(16 * 1024);
  try {
    const file = openSync(path, 'r');
    try {
      return bytes.toString('utf8', 0, readSync(file, bytes));
    } finally {
      closeSync(file);
    }
  } catch {
    return '';
  }
}

/** A damaged or foreign file counts as empty. */
function readEntries(path: string): Proof[] {
  try {
    const file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0));
    try {
      const found = fstatSync(file);
      if (!found.isFile() || found.size > mostBytes) return [];
      const { version, entries } = JSON.parse(readFileSync(file, 'utf8')) as { version?: unknown; entries?: unknown };
      return version === 1 && Array.isArray(entries) ? entries.filter(isProof) : [];
    } finally {
      closeSync(file);
    }
  } catch {
    return [];
  }
}

function isProof(value: unknown): value is Proof {
  if (typeof value !== 'object' || value === null) return false;
  const { key, proved, refused, timeMs, untilMs = 0 } = value as Record<string, unknown>;
  return typeof key === 'string' && typeof timeMs === 'number' && typeof untilMs === 'number' && Array.isArray(proved) && proved.every((one) => typeof one === 'string')
    && typeof refused === 'object' && refused !== null && Object.values(refused).every((one) => typeof one === 'string');
}
