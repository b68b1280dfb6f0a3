// Starts Recua and llama-server on the same model with the same settings, each on a free port, runs
// clients against them, and stops them. `url` of a running server is its base address.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const recuaMain = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url));
const clientsFile = fileURLToPath(new URL('clients.mjs', import.meta.url));
const llamaServer = fileURLToPath(new URL('../build/bin/llama-server', import.meta.url));

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** Settings for both servers. `context` is what one request may hold. */
function commands({ model, parallel, context, threads, embeddings, speculation, gpuLayers, template, flags = [] }, port) {
  const offload = gpuLayers === undefined ? [] : ['-ngl', gpuLayers < 0 ? 'all' : gpuLayers];
  const chat = template ? ['--chat-template-file', template] : [];
  const spec = speculation ? ['--spec-type', 'ngram-simple'] : [];
  return {
    recua: [process.execPath, [recuaMain, 'api', model, '--port', port, '--ctx-size', context, '--parallel', parallel, '--threads', threads, '--log-level', 'error', ...offload, ...spec, ...chat, ...flags]],
    'llama-server': [llamaServer, [
      '-m', model, '--port', port, '-c', context * parallel, '-np', parallel, '-t', threads, '--no-kv-unified', '--jinja', '--offline', '--log-disable', ...offload, ...spec, ...chat,
      ...(embeddings ? ['--embeddings', '--pooling', 'mean', '-ub', context, '-b', context] : []),
    ]],
  };
}

/** Servers that end with the benchmark, even if it is stopped. */
const running = new Set();
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    for (const child of running) child.kill();
    process.kill(process.pid, signal);
  });
}

/**
 * Starts a server and waits until it is healthy.
 * @param {'recua' | 'llama-server'} name
 * @param {{ model: string, parallel: number, context: number, threads: number, embeddings?:
 *   boolean, speculation?: boolean, gpuLayers?: number, template?: string, flags?:
 *   (string | number)[] }} settings
 *   `flags` are for Recua alone
 */
export async function startServer(name, settings) {
  const port = await freePort();
  const [command, args] = commands(settings, port)[name];
  const startedAt = performance.now();
  const child = spawn(command, args.map(String), { stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(child);
  child.once('exit', () => running.delete(child));
  let talk = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => { talk = (talk + text).slice(-4000); });
  const url = `http://127.0.0.1:${port}`;
  const gone = once(child, 'exit').then(([code, signal]) => { throw new Error(`${name} ended with ${code ?? signal} before it was ready:\n${talk}`); });
  gone.catch(() => {});
  const healthy = (async () => {
    for (;;) {
      const ok = await fetch(`${url}/health`).then((response) => response.ok, () => false);
      if (ok) return;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  })();
  await Promise.race([healthy, gone]);
  return {
    name, url, pid: child.pid, startMs: performance.now() - startedAt,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGTERM');
      const insist = setTimeout(() => child.kill('SIGKILL'), 5000);
      await once(child, 'exit');
      clearTimeout(insist);
    },
  };
}

/** Runs `use` with a server, then stops the server. */
export async function withServer(name, settings, use) {
  const server = await startServer(name, settings);
  try {
    return await use(server);
  } finally {
    await server.stop();
  }
}

/** Runs a load's clients in their own process; returns the numbers they print. */
export async function runClients({ url }, work) {
  const { stdout } = await promisify(execFile)(process.execPath, [clientsFile, JSON.stringify({ url, ...work })]);
  return JSON.parse(stdout);
}
