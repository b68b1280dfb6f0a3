// A trial: one process in which the CPU library proves itself (addon/proof-main), and its result.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { refusedEnvironment, type Refused } from '../../addon/refused.js';
import type { ErrorCode, PlainError } from '../../errors.js';
import { confine } from '../confinement/launch.js';
import { familyText } from './families.js';

/** The process's input, as JSON in its first argument. */
export interface TrialRequest {
  families: readonly string[];
  refused: Refused;
  limitMs: number;
}

/** What failed: a library, or one of Recua's kernels; empty if unknown. */
export interface Blamed {
  /** Its path. */
  library?: string;
  /** `attention NAME` or `matmul NAME`. */
  kernel?: string;
}

/** A line of the process's stdout. */
export type TrialLine =
  | { at: string } & Blamed & { wrong?: string }
  | { chosen: string; linked: boolean; features: Readonly<Record<string, string>> }
  | { failed: PlainError }
  | { done: true };

export interface Chosen {
  /** Path of the CPU library; '' if none is usable. */
  library: string;
  /** It is part of the addon: there is no other to choose from. */
  linked: boolean;
  features: Readonly<Record<string, string>>;
}

export type TrialResult =
  | { kind: 'proved'; chosen: Chosen }
  | { kind: 'broken'; chosen: Chosen | undefined; blamed: Blamed; family: string; reason: string; late: boolean }
  /** The trial was not possible, which says nothing about the library. */
  | { kind: 'untried'; reason: string; code?: ErrorCode };

export interface TrialSettings {
  /** Whether its process runs in a sandbox, like an engine's. */
  confined: 'has to be' | 'if it can be' | 'no';
  signal?: AbortSignal | undefined;
  limitMs?: number;
}

/** Signals caused by the process's own instructions, not sent by others. */
const faultSignals = new Set(['SIGILL', 'SIGSEGV', 'SIGBUS', 'SIGFPE', 'SIGABRT', 'SIGTRAP']);
/** Lack of memory is not the library's fault. */
const noMemory = /out of memory|\bOOM\b|Allocation failed|bad_alloc/;
/** All families take about a second on the slowest machines. */
const usualLimitMs = 20_000;
const entry = fileURLToPath(new URL('../../addon/proof-main.js', import.meta.url));

/** @throws RecuaError `sandbox_unavailable` */
export function tryLibrary(
  families: readonly string[],
  refused: Refused,
  { confined, signal, limitMs = usualLimitMs }: TrialSettings,
): Promise<TrialResult> {
  const launch = confined === 'no' ? undefined : confine({ reads: [], writes: [], gpu: false }, confined === 'has to be');
  const request = JSON.stringify({ families, refused, limitMs } satisfies TrialRequest);
  return new Promise((resolve) => {
    const how = launch ? { execPath: launch.program, execArgv: launch.arguments } : { execArgv: [] };
    // Results come over stdout: IPC messages may be lost when the process dies.
    const child = fork(entry, [request], {
      ...how,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      env: { ...process.env, ...refusedEnvironment(refused) },
    });
    let begun = '';
    let said = '';
    let late = false;
    let heard = false;
    let at: { at: string } & Blamed = { at: 'loading' };
    let chosen: Chosen | undefined;
    let result: TrialResult | undefined;
    const broken = (reason: string): TrialResult => {
      const { at: family, ...blamed } = at;
      return {
        kind: 'broken',
        chosen,
        blamed,
        family,
        late,
        reason: `${family === 'loading' ? 'loading it' : familyText(family)}: ${reason}`,
      };
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

/** Skips other output: a library may print to stdout, too. */
function isLine(text: string): boolean {
  return text.startsWith('{"') && text.endsWith('}');
}

function lastWords(output: string): string {
  const line = output.split('\n').map((one) => one.trim()).filter(Boolean).at(-1);
  return line === undefined ? '' : `: ${line.slice(0, 200)}`;
}
