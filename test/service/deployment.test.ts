// The nginx configuration of docs/deployment.md, with other ports and files, in front of a real
// server. cluster.test.ts covers that of `recua cluster config`.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { WebSocket } from 'ws';
import { root } from '../cli/recua.js';
import { freePort } from '../free-port.js';
import { post, startService, type Message } from './service.js';

const text = readFileSync(join(root, 'docs', 'deployment.md'), 'utf8');
const blockOf = (language: string) => text.split(`\`\`\`${language}\n`)[1]!.split('```')[0]!;
const without = (command: string, flag: string) => spawnSync(command, [flag]).error !== undefined && `${command} is not installed`;

/** Runs until the test ends. Returns once it responds. */
async function run(t: Test, command: string, args: string[], url: string): Promise<ChildProcess> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (said += String(data)));
  const ended = once(child, 'exit');
  t.teardown(async () => {
    child.kill('SIGTERM');
    await ended;
  });
  for (;;) {
    if (child.exitCode !== null) throw new Error(`${command} ended: ${said}`);
    if (await fetch(`${url}/health`).then(({ ok }) => ok, () => false)) return child;
    await wait(50);
  }
}

const user = (content: string): Message => ({ role: 'user', content });

t.test('behind nginx answers arrive piece by piece, and WebSockets open', { skip: without('nginx', '-v') }, async (t) => {
  const { url } = await startService(t);
  const [port, folder] = [await freePort(), t.testdir({})];
  const block = blockOf('nginx').replace('127.0.0.1:8080', new URL(url).host).replace('listen 443 ssl', `listen 127.0.0.1:${port}`).replace(/^ *ssl_.*\n/gm, '');
  const file = join(folder, 'nginx.conf');
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path "${folder}/${name}";`).join('\n');
  writeFileSync(file, `daemon off;\npid "${folder}/pid";\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n${temporary}\n${block}}\n`);
  const proxy = `http://127.0.0.1:${port}`;
  await run(t, 'nginx', ['-p', folder, '-c', file], proxy);

  const reply = await post(proxy, '/v1/chat/completions', { messages: [user('Tell me a story')], max_tokens: 3_000, ignore_eos: true, stream: true });
  t.equal(reply.status, 200);
  let pieces = 0;
  for await (const piece of reply.body as unknown as AsyncIterable<Uint8Array>) if (piece.length > 0 && ++pieces > 3) break;
  t.ok(pieces > 3, `${pieces} pieces`);
  t.equal((await post(proxy, '/v1/chat/completions', { messages: [user('x'.repeat(2_000_000))] })).status, 400, 'large bodies reach the server');

  const socket = new WebSocket(`${proxy.replace('http', 'ws')}/v1/responses`);
  await once(socket, 'open');
  const last = new Promise<string>((resolve) => socket.on('message', (data: Buffer) => {
    const { type } = JSON.parse(data.toString()) as { type: string };
    if (type === 'response.completed') resolve(type);
  }));
  socket.send(JSON.stringify({ type: 'response.create', model: 'default', input: 'Hello!' }));
  t.equal(await last, 'response.completed');
  socket.close();
});
