// A home for one test: Recua keeps its files there, and a managed server that the test leaves is
// ended.
import type { Test } from 'tap';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { servePlaces } from '#recua/cli/serve/state-file.js';
import type { ServePlaces, ServerRecord } from '#recua/cli/serve/state-file.js';
import { recua } from './recua.js';
import type { Result } from './recua.js';

export interface Home {
  folder: string;
  env: Record<string, string>;
  places: ServePlaces;
  /** The record of the managed server; throws if there is none. */
  record(): ServerRecord;
  /** `recua serve …` in this home. */
  serve(...args: string[]): Promise<Result>;
}

export function makeHome(t: Test): Home {
  // Not t.testdir(), which is removed before teardown, while a leftover server may still write
  // there.
  const folder = mkdtempSync(join(realpathSync(tmpdir()), 'recua-home-'));
  const env = { SERVICE_HOME: join(folder, 'models'), HOME: folder, XDG_CONFIG_HOME: join(folder, 'config'), XDG_CACHE_HOME: join(folder, 'cache') };
  const places = servePlaces(join(folder, 'models', 'recua', 'serve'));
  const record = () => JSON.parse(readFileSync(places.record, 'utf8')) as ServerRecord;
  t.teardown(async () => {
    await killServers(places.record);
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  return { folder, env, places, record, serve: (...args) => recua(['serve', ...args], '', { env }) };
}

/** Ends the server of a state file, even if the file is gone. */
async function killServers(record: string): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    const { stdout } = spawnSync('ps', ['-eo', 'pid=,args='], { encoding: 'utf8', maxBuffer: 1 << 26 });
    const left = stdout.split('\n').filter((line) => line.endsWith(` --state-file=${record}`)).map((line) => Number.parseInt(line));
    if (left.length === 0) return;
    for (const pid of left) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch { /* It has ended by itself. */ }
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`a server of ${record} is left`);
}

/** Waits at most half a minute for a condition that another process brings about. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; !await condition(); tries++) {
    if (tries > 1_500) throw new Error(`never came true: ${condition.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
