// Four replicas behind HAProxy and nginx, with the output of `recua cluster config`: the short form
// of `npm run bench -- cluster`, which shares its parts.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { WebSocket } from 'ws';
import { makeCertificates } from '../server/access/certificates.js';
import { until } from '../cli/home.js';
import { start } from '../cli/recua.js';

interface Replica {
  url: string;
  start(): Promise<void>;
  end(signal: NodeJS.Signals): Promise<number | string>;
  requests(): Promise<number>;
}
interface Result { begun: boolean; error: string | undefined; prompt: number; cached: number; turn: number }
interface Conversation { fields: Record<string, unknown> }
interface Bench {
  makeReplicas(given: { count: number; args: string[]; key: string }): Promise<{ replicas: Replica[]; stop(): Promise<void> }>;
  startBalancer(
    kind: string,
    replicas: readonly { url: string }[],
    given?: { flags?: readonly string[]; ready?: boolean },
  ): Promise<{ url: string; stop(): Promise<void> }>;
  makeConversations(given: object): Conversation[];
  run(url: string, key: string, conversations: Conversation[], given: object): Promise<Result[]>;
  runOneByOne(url: string, key: string, conversations: Conversation[], given: object): Promise<Result[]>;
  ask(url: string, key: string, one: object, tokens: number): Promise<Result & { text: string }>;
}
const parts = await Promise.all(['replicas', 'balancer', 'traffic'].map((name) => import(new URL(`../../bench/cluster/${name}.mjs`, import.meta.url).href) as Promise<object>));
const bench = Object.assign({}, ...parts) as Bench;

const key = 'a-key-of-the-cluster-test';
const env = { ...process.env, PATH: `${process.env['PATH']}:/usr/sbin:/usr/local/sbin` };
const without = (program: string) => (spawnSync(program, ['-v'], { env }).error === undefined ? false : `${program} is not installed`);

async function replicasOf(t: Test, args: string[] = [], count = 4): Promise<Replica[]> {
  const { replicas, stop } = await bench.makeReplicas({ count, args: ['builtin', '--ctx-size', '2048', '--threads', '1', ...args], key });
  t.teardown(stop);
  return replicas;
}

/** Two servers in the place of replicas, that answer as `answerOf` says. */
async function standInsOf(t: Test, answerOf: (index: number) => RequestListener): Promise<{ url: string }[]> {
  return await Promise.all([0, 1].map(async (index) => {
    const server = createServer(answerOf(index)).listen(0, '127.0.0.1');
    t.teardown(() => server.closeAllConnections());
    t.teardown(() => server.close());
    await once(server, 'listening');
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  }));
}

async function balancerOf(t: Test, kind: string, replicas: readonly { url: string }[], given = {}): Promise<string> {
  const balancer = await bench.startBalancer(kind, replicas, given);
  t.teardown(() => balancer.stop());
  return balancer.url;
}

const errors = (results: readonly Result[]) => results.flatMap(({ error }) => (error === undefined ? [] : [error]));
const share = (results: readonly Result[]) =>
  results.reduce((sum, { cached }) => sum + cached, 0) / results.reduce((sum, { prompt }) => sum + prompt, 0);
const namings: Record<string, string[]> = { haproxy: ['header', 'key', 'none'], nginx: ['header'] };
const traffic = { conversations: 12, kinds: 2, systemWords: 60, toolWords: 20, seed: 1 };
const work = { turns: 4, tokens: 12, pauseMs: [50, 300] };

t.test('behind haproxy what continues or controls an answer reaches the replica that has it', { skip: without('haproxy') }, async (t) => {
  const replicas = await standInsOf(t, (index) => (_req, res) => res.end(String(index)));
  const url = await balancerOf(t, 'haproxy', replicas);
  let elsewhere = 0;
  for (let client = 0; client < 12; client++) {
    const ask = async (path: string, body: object) => (await fetch(url + path, { method: 'POST', headers: { authorization: `Bearer client ${client}` }, body: JSON.stringify(body) })).text();
    const messages = [{ role: 'user', content: `conversation ${client}` }];
    const home = await ask('/v1/responses', { input: 'Hi' });
    t.equal(await ask('/v1/responses', { input: `And then ${client}?`, store: false, previous_response_id: 'resp_1' }), home);
    t.equal(await ask('/v1/chat/completions', { messages, reasoning_control: true }), home);
    t.equal(await ask('/v1/chat/completions/control', { id: 'chatcmpl-1', action: 'reasoning_end' }), home);
    if (await ask('/v1/chat/completions', { messages }) !== home) elsewhere++;
    if (await ask('/v1/responses', { input: `And then ${client}?`, store: false, previous_response_id: null }) !== home) elsewhere++;
  }
  t.ok(elsewhere > 0, 'others go by conversation');
});

for (const kind of ['haproxy', 'nginx']) {
  t.test(`behind ${kind} conversations reach their cache, and replicas share the load`, { skip: without(kind) }, async (t) => {
    const replicas = await replicasOf(t);
    const url = await balancerOf(t, kind, replicas);
    const ours = await bench.run(url, key, bench.makeConversations({ ...traffic, naming: namings[kind] }), work);
    t.strictSame(errors(ours), []);
    const counts = await Promise.all(replicas.map((one) => one.requests()));
    t.ok(counts.filter((count) => count > 0).length >= 3, `they share the work: ${counts.join(' ')}`);
    t.ok(Math.max(...counts) <= (kind === 'haproxy' ? 24 : 36), `none has too much of it: ${counts.join(' ')}`);

    const [alone] = await replicasOf(t, ['--parallel', '12'], 1);
    const best = share(await bench.runOneByOne(alone!.url, key, bench.makeConversations({ ...traffic, naming: ['none'] }), work));
    t.ok(share(ours) >= 0.85 * best, `${share(ours).toFixed(2)} of the tokens cached, where ${best.toFixed(2)} can be`);
    const later = ours.filter(({ turn }) => turn > 0);
    t.ok(later.filter(({ cached, prompt }) => cached < prompt / 2).length <= 3, 'a next turn reads little');

    t.equal((await fetch(`${url}/v1/models`)).status, 401, 'keys are the replicas’ business');
    t.equal((await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })).status, 200);
  });

  t.test(`behind ${kind} conversations wait for their own replica while all are full`, { skip: without(kind) }, async (t) => {
    const replicas = await standInsOf(t, (index) => (req, res) => void setTimeout(() => res.end(String(index)), req.method === 'POST' ? 150 : 0));
    const url = await balancerOf(t, kind, replicas, { flags: ['--parallel', '1'] });
    const ask = async (name: number) => (await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'x-session-id': `conversation ${name}` }, body: '{}' })).text();
    const names = Array.from({ length: 16 }, (_, index) => index);
    const homes: string[] = [];
    for (const name of names) homes.push(await ask(name));
    t.equal(new Set(homes).size, 2);
    const crowd = await Promise.all([...names, ...names].map(async (name) => await ask(name) === homes[name]));
    t.ok(crowd.filter((isHome) => isHome).length >= 25, `${crowd.filter((isHome) => isHome).length} of 32 came home`);
  });

  t.test(`behind ${kind} a client that all replicas refuse with 503 locks nobody else out`, { skip: without(kind) }, async (t) => {
    const replicas = await standInsOf(t, () => (req, res) => void res.writeHead(req.headers['x-refused'] ? 503 : 200).end());
    const url = await balancerOf(t, kind, replicas);
    const asked = ['POST /v1/chat/completions', 'POST /v1/responses', 'GET /props', 'POST /v1/files'];
    const ask = async (headers: Record<string, string>): Promise<number[]> => {
      const statuses: number[] = [];
      for (const one of asked) {
        const [method, path] = one.split(' ') as [string, string];
        statuses.push((await fetch(url + path, { method, headers, ...(method === 'POST' ? { body: '{}' } : {}) })).status);
      }
      return statuses;
    };
    for (let round = 0; round < 3; round++) {
      t.strictSame(await ask({ 'x-refused': 'yes' }), [503, 503, 503, 503]);
      t.strictSame(await ask({}), [200, 200, 200, 200]);
    }
  });

  t.test(`behind ${kind} a client that leaves ends its request, which no replica has answered`, { skip: without(kind) }, async (t) => {
    let [begun, ended] = [0, 0];
    const replicas = await standInsOf(t, () => (req, res) => {
      if (req.url === '/health/ready') return void res.end();
      begun++;
      res.on('close', () => ended++);
    });
    const url = await balancerOf(t, kind, replicas);
    let asked = 0;
    for (const path of ['/v1/chat/completions', '/v1/responses', '/v1/batches']) {
      const leaving = new AbortController();
      const asking = fetch(url + path, { method: 'POST', body: '{}', signal: leaving.signal }).catch(() => undefined);
      asked++;
      await until(() => begun === asked);
      leaving.abort();
      await asking;
      await until(() => ended === asked);
    }
    await wait(200);
    t.equal(begun, asked, 'and no other replica gets it');
  });

  t.test(`behind ${kind} a killed replica loses no request that had not begun`, { skip: without(kind) }, async (t) => {
    const replicas = await replicasOf(t, ['--parallel', '1']);
    const url = await balancerOf(t, kind, replicas);
    // Long answers, more than the replicas serve at once: some wait on each.
    const all = bench.makeConversations({ ...traffic, conversations: 24, naming: namings[kind] });
    for (const { fields } of all) fields['ignore_eos'] = true;
    const asked = Promise.all(all.map((one) => bench.run(url, key, [one], { turns: 4, tokens: 300 })));
    const isBusy = async ({ url: own }: Replica) => {
      const { running, waiting } = (await (await fetch(`${own}/health`)).json()) as { running: number; waiting: number };
      return running > 0 && waiting > 0;
    };
    let killed: Replica | undefined;
    while (!killed) {
      const states = await Promise.all(replicas.map(isBusy));
      killed = replicas.find((_, index) => states[index]);
    }
    await killed.end('SIGKILL');
    await wait(300);
    await killed.start();
    const results = (await asked).flat();
    t.strictSame(errors(results.filter(({ begun }) => !begun)), []);
    t.ok(errors(results).length <= 1, 'one was cut: what it was answering');
  });

  t.test(`behind ${kind} a restart of all replicas, one by one under load, fails no request`, { skip: without(kind) }, async (t) => {
    const replicas = await replicasOf(t, ['--drain-timeout', '60']);
    const url = await balancerOf(t, kind, replicas);
    let isOver = false;
    const all = bench.makeConversations({ ...traffic, naming: namings[kind] });
    const load = bench.run(url, key, all, { turns: (turn: number) => !isOver && turn < 14, tokens: 40, pauseMs: [50, 1500] });
    const failures: string[] = [];
    const read = async (path: string): Promise<void> => {
      while (!isOver) {
        const told = await fetch(url + path, { headers: { authorization: `Bearer ${key}` } }).then(async (reply) => {
          await reply.text();
          return reply.ok ? undefined : `${reply.status}`;
        }, String);
        if (told !== undefined) failures.push(`${path} ${told}`);
      }
    };
    const reads = ['/v1/models', '/v1/files', '/v1/files', '/v1/files'].map(read);
    await wait(500);
    for (const one of replicas) {
      t.equal(await one.end('SIGTERM'), 0);
      await one.start();
      // Until the balancer has noticed.
      await wait(2500);
    }
    isOver = true;
    await Promise.all(reads);
    t.strictSame(failures, []);
    const results = await load;
    t.ok(results.length > 20, `${results.length} requests`);
    t.strictSame(errors(results), []);
  });

  t.test(`behind ${kind} stored responses and files are found again, and all requests pass`, { skip: without(kind) }, async (t) => {
    const url = await balancerOf(t, kind, await replicasOf(t));
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const say = async (input: string, more: object = {}) => {
      const response = await fetch(`${url}/v1/responses`, { method: 'POST', headers, body: JSON.stringify({ input, max_output_tokens: 8, ...more }) });
      return { code: response.status, ...(await response.json() as { id: string }) };
    };
    for (let round = 0; round < 8; round++) {
      const first = await say(`Number ${round}`);
      const second = await say('And then?', { previous_response_id: first.id });
      t.equal(second.code, 200);
      t.equal((await fetch(`${url}/v1/responses/${second.id}`, { headers })).status, 200);
    }
    const large = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body: JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(3_000_000) }] }) });
    t.match(await large.json(), { error: { code: 'context_length_exceeded' } }, 'a body larger than what balancers keep arrives');
    for (let round = 0; round < 4; round++) {
      const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/responses`, { headers: { authorization: headers.authorization } });
      await once(socket, 'open');
      const last = new Promise<string>((resolve) => socket.on('message', (data: Buffer) => {
        const { type, response } = JSON.parse(data.toString()) as { type: string; response?: { id: string } };
        if (type === 'response.completed') resolve(response!.id);
      }));
      socket.send(JSON.stringify({ type: 'response.create', model: 'default', input: 'Hello!' }));
      const stored = await last;
      socket.close();
      t.equal((await fetch(`${url}/v1/responses/${stored}`, { headers })).status, 200, 'what a WebSocket stored is found');
    }
    const form = new FormData();
    form.set('purpose', 'batch');
    form.set('file', new Blob(['{}\n']), 'a.jsonl');
    const uploaded = await fetch(`${url}/v1/files`, { method: 'POST', headers: { authorization: headers.authorization }, body: form });
    const { id } = await uploaded.json() as { id: string };
    t.equal((await fetch(`${url}/v1/files/${id}/content`, { headers })).status, 200);
  });

  t.test(`${kind} checks the certificates of replicas with TLS`, { skip: without(kind) }, async (t) => {
    const { tlsCert, tlsKey, caFile } = await makeCertificates(t);
    const server = start(['api', 'builtin', '--port', '0', '--tls-cert', tlsCert, '--tls-key', tlsKey, '--api-key', key]);
    t.teardown(async () => {
      server.child.kill('SIGTERM');
      await server.ended;
    });
    const [, secure] = await server.saw(/listens on (https:\S+)/);
    const body = { headers: {}, fields: {}, messages: [{ role: 'user', content: 'Hello!' }] };
    const good = await balancerOf(t, kind, [{ url: secure! }], { flags: ['--ca-file', caFile, '--tls-name', 'localhost'] });
    const answer = await bench.ask(good, key, body, 8);
    t.equal(answer.error, undefined);
    t.ok(answer.text.length > 0);
    const { caFile: others } = await makeCertificates(t);
    const bad = await balancerOf(t, kind, [{ url: secure! }], { flags: ['--ca-file', others, '--tls-name', 'localhost'], ready: false });
    await wait(2500);
    t.match((await bench.ask(bad, key, body, 8)).error, /^50[23]/, 'an authority that it does not know');
    const named = await balancerOf(t, kind, [{ url: secure! }], { flags: ['--ca-file', caFile, '--tls-name', 'models.example.com'], ready: false });
    await wait(2500);
    t.match((await bench.ask(named, key, body, 8)).error, /^50[23]/, 'a name that the certificate does not carry');
  });
}
