// Tries a backend library in a separate process, since loading it may end or block the process: a
// driver that aborts, a library for another processor, an initializer that never returns. Called by
// backends.ts before it loads the library in this process.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Refused } from './refused.js';

/** The probe process's input, as JSON in its first argument. */
export interface ProbeRequest {
  addon: string;
  source: 'RECUA_ADDON' | 'build' | 'package';
  /** The library to try. */
  file: string;
  /** CPU libraries and kernels not to use there either. */
  refused: Refused;
  limitMs: number;
}

export type ProbeResult = { ok: true; devices: string[] } | { ok: false; reason: string };

/** GPUs without a persistence daemon, or many of them, take seconds to wake up. */
export const probeLimitMs = 30_000;

const entry = fileURLToPath(new URL('./probe-main.js', import.meta.url));
const longestQuote = 300;

export function probe(request: Omit<ProbeRequest, 'limitMs'>, limitMs = probeLimitMs): Promise<ProbeResult> {
  return new Promise((resolve) => {
    const argument = JSON.stringify({ ...request, limitMs } satisfies ProbeRequest);
    // Without it, Vulkan's loader keeps to itself why it has no driver.
    const env = { VK_LOADER_DEBUG: 'error', ...process.env };
    const child = fork(entry, [argument], { env, execArgv: [], stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
    let output = '';
    let result: ProbeResult | undefined;
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      child.kill('SIGKILL');
    }, limitMs);
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => (output = (output + text).slice(-4096)));
    }
    child.on('message', (message) => {
      result = message as ProbeResult;
      // The result is here; skip the cleanup of its libraries.
      child.kill('SIGKILL');
    });
    const end = (how: string): void => {
      clearTimeout(timer);
      if (!result) resolve({ ok: false, reason: `${how}${lastWords(output)}` });
      else if (result.ok) resolve(result);
      else resolve({ ok: false, reason: `${result.reason}${loaderWords(output)}` });
    };
    child.on('error', (error) => end(`it could not be tried: ${error.message}`));
    child.on('close', (code, signal) => {
      const limit = `it did not load within ${limitMs / 1000} s`;
      end(late ? limit : `loading it ended the process (${signal === null ? `exit code ${code}` : `signal ${signal}`})`);
    });
  });
}

function lastWords(output: string): string {
  const line = output.split('\n').map((one) => one.trim()).filter(Boolean).at(-1);
  return line === undefined ? '' : `: ${line.slice(0, longestQuote)}`;
}

/** What Vulkan's loader reported, such as a library that its driver lacks. */
function loaderWords(output: string): string {
  const reported = [...output.matchAll(/^(?:\[Vulkan Loader\] )?ERROR(?: \| \w+)?:\s+(?:\[Loader Message\] Code \d+ : )?(.+)$/gm)].map(([, words]) => words!);
  return reported.length === 0 ? '' : `; Vulkan's loader: ${[...new Set(reported)].join('; ').slice(0, longestQuote)}`;
}
