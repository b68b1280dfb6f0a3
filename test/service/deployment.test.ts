// The configurations of docs/deployment.md, with other ports and files, before real servers.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { WebSocket } from 'ws';
import { root } from '../cli/recua.js';
import { chat, post, startService, type Message } from './service.js';

const text = readFileSync(join(root, 'docs', 'deployment.md'), 'utf8');
const blockOf = (language: string) => text.split(`\`\`\`${language}\n`)[1]!.split('```')[0]!;
const without = (command: string, flag: string) => spawnSync(command, [flag]).error !== undefined && `${command} is not installed`;

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Runs until the test ends, and answers already. */
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

t.test('behind nginx answers come piece by piece, and WebSockets open', { skip: without('nginx', '-v') }, async (t) => {
  const { url } = await startService(t);
  const [port, folder] = [await freePort(), t.testdir({})];
  const block = blockOf('nginx').replace('127.0.0.1:8080', new URL(url).host).replace('listen 443 ssl', `listen 127.0.0.1:${port}`).replace(/^ *ssl_.*\n/gm, '');
  const file = join(folder, 'nginx.conf');
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path "${folder}/${name}";`).join('\n');
  writeFileSync(file, `daemon off;\npid "${folder}/pid";\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n${temporary}\n${block}}\n`);
  const proxy = `http://127.0.0.1:${port}`;
  await run(t, 'nginx', ['-p', folder, '-c', file], proxy);

  const reply = await post(proxy, '/v1/chat/completions', { messages: [user('Tell me a story')], max_tokens: 300, stream: true });
  t.equal(reply.status, 200);
  let pieces = 0;
  for await (const piece of reply.body as unknown as AsyncIterable<Uint8Array>) if (piece.length > 0) pieces++;
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

t.test('behind HAProxy a conversation stays with its server, and one that dies loses nothing', { skip: without('haproxy', '-v') }, async (t) => {
  const replicas = await Promise.all(Array.from({ length: 4 }, () => startService(t)));
  const port = await freePort();
  let block = blockOf('haproxy').replace('bind :8000', `bind 127.0.0.1:${port}`);
  for (const [index, { url }] of replicas.entries()) block = block.replace(`10.0.0.${index + 1}:8080`, new URL(url).host);
  const file = join(t.testdir({}), 'haproxy.cfg');
  writeFileSync(file, block);
  const proxy = `http://127.0.0.1:${port}`;
  await run(t, 'haproxy', ['-db', '-f', file], proxy);
  const served = async () => await Promise.all(replicas.map(async ({ url }) => ((await (await fetch(`${url}/health`)).json()) as { requests: number }).requests));

  const system = { role: 'system', content: 'You are terse. '.repeat(20) };
  const conversations = Array.from({ length: 16 }, (_, index) => ({
    messages: [...(index % 2 === 0 ? [system] : []), user(`Number ${index} tells you that it rains in the mountains.`)],
    more: index % 4 === 1 ? { prompt_cache_key: `chat-${index}` } : {},
  }));
  const moved: string[] = [];
  for (let turn = 0; turn < 3; turn++) {
    for (const { messages, more } of conversations) {
      const { choices: [choice], usage } = await chat(proxy, messages, { max_tokens: 16, ...more });
      const { cached_tokens: cached } = usage.prompt_tokens_details;
      if (turn > 0 && cached < 20) moved.push(`turn ${turn}: ${cached} of ${usage.prompt_tokens} cached`);
      messages.push({ role: 'assistant', content: choice!.message.content }, user('And then?'));
    }
  }
  // What is above 1.3 times the average load goes elsewhere, also where an answer just ended.
  t.ok(moved.length <= 3, `of 32 turns ${moved.length} went to another server: ${moved.join('; ')}`);
  const counts = await served();
  t.ok(counts.filter((count) => count > 0).length >= 3, `they share the work: ${counts.join(', ')}`);

  replicas[0]!.child.kill('SIGKILL');
  const asked = await Promise.all(conversations.map(async ({ messages, more }) => (await post(proxy, '/v1/chat/completions', { messages, max_tokens: 4, ...more })).status));
  t.ok(asked.every((status) => status === 200), asked.join(' '));
});
