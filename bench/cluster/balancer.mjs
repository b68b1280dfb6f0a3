// HAProxy or nginx with the configuration that `recua cluster config` writes.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { freePort, recuaMain } from './replicas.mjs';

const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/usr/local/sbin` };

export const isInstalled = (kind) => spawnSync(kind, ['-v'], { env }).error === undefined;

/** The configuration for these replicas. */
export function configOf(kind, replicas, port, flags = []) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [recuaMain, 'cluster', 'config', kind, '--replicas', replicas.map(({ url }) => url).join(','), '--listen', `127.0.0.1:${port}`, ...flags], { encoding: 'utf8', env });
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

/** The same configuration with plain round robin. */
export const inTurn = (kind, text) => (kind === 'haproxy'
  ? text.replace(/^ {2}balance hash .*\n {2}hash-type .*$/gm, '  balance roundrobin').replace(/^ {2}hash-balance-factor.*$/gm, '').replace(/^ {2}stick .*$/gm, '')
  : text.replace(/^ {2}hash .*;$/gm, ''));

/**
 * Starts it, and waits until a replica behind it is ready, or until it answers itself.
 * @param {'haproxy' | 'nginx'} kind
 * @param {{ change?: (text: string) => string, flags?: readonly string[], ready?: boolean }} given
 *   `change` edits the configuration, `flags` go to the command
 */
export async function startBalancer(kind, replicas, { change = (text) => text, flags = [], ready = true } = {}) {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'recua-balancer-'));
  const file = join(folder, 'recua.conf');
  const whole = join(folder, 'nginx.conf');
  writeFileSync(file, change(configOf(kind, replicas, port, flags)));
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path "${folder}/${name}";`).join('\n');
  writeFileSync(whole, `${process.getuid?.() === 0 ? 'user root;\n' : ''}daemon off;\nworker_processes 1;\npid "${folder}/pid";\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n${temporary}\ninclude "${file}";\n}\n`);
  const words = kind === 'haproxy' ? ['-db', '-f', file] : ['-p', folder, '-e', 'stderr', '-c', whole];
  const child = spawn(kind, words, { stdio: ['ignore', 'pipe', 'pipe'], env });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => { said = (said + data).slice(-4000); });
  const url = `http://127.0.0.1:${port}`;
  const latest = performance.now() + 20_000;
  while (!(await fetch(`${url}/health/ready`).then(({ ok }) => ok || !ready, () => false))) {
    if (child.exitCode !== null) throw new Error(`${kind} ended: ${said}`);
    if (performance.now() > latest) {
      child.kill('SIGKILL');
      throw new Error(`${kind} finds no replica ready: ${said}`);
    }
    await wait(50);
  }
  return {
    url,
    async stop() {
      const ended = once(child, 'exit');
      if (child.exitCode === null) {
        child.kill('SIGTERM');
        await ended;
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
