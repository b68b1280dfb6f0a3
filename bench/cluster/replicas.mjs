// Several servers of this tree, each in its own network namespace if the system allows it, else on
// its own port. They can be killed, stopped and restarted at the same address.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

export const recuaMain = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

const port = 8080;
const ip = (...words) => spawnSync('ip', words, { encoding: 'utf8' });

/** A free port of this machine. */
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port: free } = server.address();
  server.close();
  await once(server, 'close');
  return free;
}

/** A namespace with an address that this one can reach, or undefined if not allowed. */
function makeNamespace(index) {
  const name = `recua-${process.pid}-${index}`;
  if (process.platform !== 'linux' || ip('netns', 'add', name).status !== 0) return undefined;
  const near = `rc${process.pid % 1e6}n${index}`;
  const net = `10.${100 + (process.pid % 100)}.${index}`;
  const steps = [
    ['link', 'add', near, 'type', 'veth', 'peer', 'name', 'far', 'netns', name],
    ['addr', 'add', `${net}.1/24`, 'dev', near], ['link', 'set', near, 'up'],
    ['-n', name, 'addr', 'add', `${net}.2/24`, 'dev', 'far'], ['-n', name, 'link', 'set', 'far', 'up'], ['-n', name, 'link', 'set', 'lo', 'up'],
  ];
  const remove = () => void ip('netns', 'del', name);
  if (steps.some((words) => ip(...words).status !== 0)) return void remove();
  return { host: `${net}.2`, command: ['ip', 'netns', 'exec', name], remove };
}

/**
 * @param {{ count: number, args: readonly string[], key: string, namespaces?: boolean }} given
 *   `args` of `recua api`: model and flags
 */
export async function makeReplicas({ count, args, key, namespaces = true }) {
  const home = mkdtempSync(join(tmpdir(), 'recua-cluster-'));
  const replicas = [];
  for (let index = 1; index <= count; index++) {
    const space = namespaces ? makeNamespace(index) : undefined;
    const address = space ? { host: space.host, port } : { host: '127.0.0.1', port: await freePort() };
    replicas.push(new OneReplica(space, address, args, key, join(home, String(index))));
  }
  await Promise.all(replicas.map((one) => one.start()));
  return {
    replicas,
    isolated: replicas.every(({ space }) => space !== undefined),
    async stop() {
      await Promise.all(replicas.map((one) => one.end('SIGKILL')));
      for (const { space } of replicas) space?.remove();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

class OneReplica {
  #child;
  #said = '';

  constructor(space, { host, port: own }, args, key, home) {
    Object.assign(this, { space, url: `http://${host}:${own}`, key, home, command: [...(space?.command ?? []), process.execPath, recuaMain, 'api', ...args, '--host', host, '--port', String(own), '--log-level', 'error'] });
  }

  /** Resolves when it is ready. */
  async start() {
    const [program, ...words] = this.command;
    this.#said = '';
    this.#child = spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, RECUA_API_KEY: this.key, SERVICE_HOME: this.home } });
    for (const stream of [this.#child.stdout, this.#child.stderr]) stream.on('data', (text) => { this.#said = (this.#said + text).slice(-4000); });
    while (!(await fetch(`${this.url}/health/ready`).then(({ ok }) => ok, () => false))) {
      if (this.#child.exitCode !== null) throw new Error(`A replica ended with ${this.#child.exitCode}: ${this.#said}`);
      await wait(50);
    }
  }

  /** Resolves to its exit code, or the signal that ended it. */
  async end(signal) {
    const child = this.#child;
    if (!child) return undefined;
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit');
      child.kill(signal);
      await ended;
    }
    return child.exitCode ?? child.signalCode;
  }

  /** How many requests it got since it started. */
  async requests() {
    return (await (await fetch(`${this.url}/health`)).json()).requests;
  }
}
