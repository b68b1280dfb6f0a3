// One process in which the CPU library proves itself (addon/proof-main), and what came of it.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { refusedEnvironment, type Refused } from '../../addon/refused.js';
import type { ErrorCode, PlainError } from '../../errors.js';
import { confine } from '../confinement/launch.js';
import { familyText } from './families.js';

/** What the process is told, as JSON in its first argument. */
export interface TrialRequest {
  families: readonly string[];
  refused: Refused;
  limitMs: number;
}

/** Whose work fails: a library, a kernel of attention of ours, or what cannot be told apart. */
export interface Blamed {
  /** Its path. */
  library?: string;
  kernel?: string;
}

/** A line of the process's stdout. */
export type TrialLine =
  | { at: string } & Blamed & { wrong?: string }
  | { chosen: string; linked: boolean; features: Readonly<Record<string, string>> }
  | { failed: PlainError }
  | { done: true };

export interface Chosen {
  /** Path of the CPU library; '' where there is none that could be used. */
  library: string;
  /** It is part of the addon: there is no other to choose. */
  linked: boolean;
  features: Readonly<Record<string, string>>;
}

export type TrialResult =
  | { kind: 'proved'; chosen: Chosen }
  | { kind: 'broken'; chosen: Chosen | undefined; blamed: Blamed; family: string; reason: string; late: boolean }
  /** It could not be tried; nothing is said of the library. */
  | { kind: 'untried'; reason: string; code?: ErrorCode };

export interface TrialSettings {
  /** Whether its process is to be confined, as an engine's: it has to be, or where it can be. */
  confined: 'has to be' | 'if it can be' | 'no';
  signal?: AbortSignal | undefined;
  limitMs?: number;
}

/** What kills a process for what it executed, not for what others want. */
const faultSignals = new Set(['SIGILL', 'SIGSEGV', 'SIGBUS', 'SIGFPE', 'SIGABRT', 'SIGTRAP']);
/** Without memory nothing computes, which is no library's fault. */
const noMemory = /out of memory|\bOOM\b|Allocation failed|bad_alloc/;
/** On the slowest machine all families take a second. */
const usualLimitMs = 20_000;
const entry = fileURLToPath(new URL('../../addon/proof-main.js', import.meta.url));

/** @throws RecuaError `sandbox_unavailable` */
export function tryLibrary(families: readonly string[], refused: Refused, { confined, signal, limitMs = usualLimitMs }: TrialSettings): Promise<TrialResult> {
  const launch = confined === 'no' ? undefined : confine({ reads: [], writes: [], gpu: false }, confined === 'has to be');
  const request = JSON.stringify({ families, refused, limitMs } satisfies TrialRequest);
  return new Promise((resolve) => {
    const how = launch ? { execPath: launch.program, execArgv: launch.arguments } : { execArgv: [] };
    // Its lines come by stdout, since a message may not be sent any more when the process dies.
    const child = fork(entry, [request], { ...how, stdio: ['ignore', 'pipe', 'pipe', 'ipc'], env: { ...process.env, ...refusedEnvironment(refused) } });
    let begun = '';
    let said = '';
    let late = false;
    let heard = false;
    let at: { at: string } & Blamed = { at: 'loading' };
    let chosen: Chosen | undefined;
    let result: TrialResult | undefined;
    const broken = (reason: string): TrialResult => {
      const { at: family, ...blamed } = at;
      return { kind: 'broken', chosen, blamed, family, late, reason: `${family === 'loading' ? 'loading it' : familyText(family)}: ${reason}` };
    };
    const read = (line: TrialLine): void => {
      heard = true;
      if ('chosen' in line) chosen = { library: line.chosen, linked: line.linked, features: line.features };
      else if ('failed' in line) result = { kind: 'untried', reason: line.failed.message, code: line.failed.code };
      else if ('done' in line) result = { kind: 'proved', chosen: chosen! };
      else {
        at = line;
        if (line.wrong !== undefined) result = broken(line.wrong);
      }
    };
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      const lines = (begun + text).split('\n');
      begun = lines.pop()!;
      for (const line of lines) if (isLine(line)) read(JSON.parse(line) as TrialLine);
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-2048)));
    const kill = (): void => void child.kill('SIGKILL');
    const timer = setTimeout(() => {
      late = true;
      kill();
    }, limitMs);
    signal?.addEventListener('abort', kill);
    const end = (result: TrialResult): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', kill);
      resolve(result);
    };
    child.on('error', (error) => end({ kind: 'untried', reason: error.message }));
    child.on('close', (code, killer) => {
      if (result) return end(result);
      if (late && heard) return end(broken(`it did not end within ${limitMs / 1000} s`));
      const how = `${killer === null ? `exit code ${code}` : `signal ${killer}`})${lastWords(said)}`;
      const isFault = heard && !noMemory.test(said) && (killer !== null ? faultSignals.has(killer) : code !== 0);
      return end(isFault ? broken(`it ended the process (${how}`) : { kind: 'untried', reason: `the process that tries it ended (${how}` });
    });
    if (signal?.aborted) kill();
  });
}

/** A library may print to stdout, too. */
function isLine(text: string): boolean {
  return text.startsWith('{"') && text.endsWith('}');
}

function lastWords(output: string): string {
  const line = output.split('\n').map((one) => one.trim()).filter(Boolean).at(-1);
  return line === undefined ? '' : `: ${line.slice(0, 200)}`;
}
