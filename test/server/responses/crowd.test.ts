// Many clients, or one greedy one, at the stored and background responses. Over the fake engine.
import { request, type IncomingMessage } from 'node:http';
import t, { type Test } from 'tap';
import { BackgroundRun } from '#recua/server/responses/background.js';
import { ResponseStore } from '#recua/server/responses/store.js';
import { ownFolder, post, startApp, until, type AppUnderTest } from '../app-under-test.js';
import { FakeEngine } from '../fake-engine.js';
import { deferred } from '../../deferred.js';

// Other systems have no other loopback addresses.
const skip = process.platform !== 'linux';
const start = (t: Test): Promise<AppUnderTest> => startApp(t, {}, new FakeEngine(), { keepIn: ownFolder(t) });

/** A request from one of the loopback addresses; 0 if the client left. */
async function from(
  last: number,
  url: string,
  body?: object,
  signal?: AbortSignal,
): Promise<{ status: number; retryAfter?: string | undefined }> {
  return await new Promise((resolve) => {
    const sent = request(
      url,
      {
        method: body ? 'POST' : 'GET',
        localAddress: `127.0.0.${last}`,
        agent: false,
        headers: { 'content-type': 'application/json' },
        signal,
      },
      (res: IncomingMessage) => {
        res.resume().once('end', () => resolve({ status: res.statusCode!, retryAfter: res.headers['retry-after'] }));
      },
    );
    sent.once('error', () => resolve({ status: 0 })).end(body && JSON.stringify(body));
  });
}

t.test('a crowd that reads a long stored response holds it once', { skip }, async (t) => {
  const app = await start(t);
  const { id } = await (await post(`${app.url}/v1/responses`, { input: 'x', instructions: 'y'.repeat(2 ** 20) })).json() as { id: string };
  const { promise: opened, resolve: open } = deferred();
  const seen = { now: 0, most: 0, all: 0 };
  for (const name of ['get', 'head'] as const) {
    const read = ResponseStore.prototype[name] as (...given: unknown[]) => Promise<unknown>;
    t.intercept(ResponseStore.prototype, name, {
      value: async function (this: ResponseStore, ...given: unknown[]) {
        seen.all++;
        seen.most = Math.max(seen.most, ++seen.now);
        try {
          await opened;
          return await read.apply(this, given);
        } finally {
          seen.now--;
        }
      },
    });
  }
  const url = `${app.url}/v1/responses/${id}`;
  const replies: { status: number; retryAfter?: string | undefined }[] = [];
  const ask = async (last: number, index: number, signal?: AbortSignal): Promise<void> => {
    replies.push(await from(last, index % 2 === 0 ? url : `${url}/input_items?limit=1`, undefined, signal));
  };
  const leaver = new AbortController();
  const all = Array.from({ length: 20 }, (_, index) => ask(1, index, leaver.signal));
  all.push(...Array.from({ length: 60 }, (_, index) => ask(1, index)));
  // One reads, and a quarter of 256 wait.
  await until(() => replies.length === 15);
  t.strictSame([...new Set(replies.map(({ status, retryAfter }) => `${status} ${retryAfter}`))], ['503 1']);
  all.push(ask(2, 0));
  leaver.abort();
  t.equal((await post(`${app.url}/v1/responses`, { input: 'z' })).status, 200, 'others go on');
  open();
  await Promise.all(all);
  const count = (wanted: number): number => replies.filter(({ status }) => status === wanted).length;
  t.ok(count(0) > 0);
  t.equal(count(200), replies.length - 15 - count(0), 'those that waited, and the other client');
  t.equal(seen.most, 1, 'read one by one');
  t.ok(seen.all <= count(200) + 1, 'not for those that left');
  t.equal((await from(1, `${url}/input_items`)).status, 200, 'and there is room again');
});

t.test('one client has a quarter of the background responses', { skip }, async (t) => {
  const app = await start(t);
  app.engine.acceptAfter = new Promise(() => undefined);
  for (const [last, taken] of [[1, 32], [2, 32], [3, 32], [4, 32], [5, 0]] as const) {
    const all = await Promise.all(Array.from({ length: 34 }, () => from(last, `${app.url}/v1/responses`, { input: 'x', background: true })));
    t.equal(all.filter(({ status }) => status === 200).length, taken, `127.0.0.${last}`);
    t.equal(all.filter(({ status }) => status === 429).length, 34 - taken);
  }
});

t.test('who watches a background response and leaves is no longer waited for, though nothing happens', async (t) => {
  // A ping would be an event.
  const app = await startApp(t, { pingIntervalMs: 0 }, new FakeEngine(), { keepIn: ownFolder(t) });
  app.engine.acceptAfter = new Promise(() => undefined);
  let watching = 0;
  const { from: events } = BackgroundRun.prototype;
  t.intercept(BackgroundRun.prototype, 'from', {
    value: async function* (this: BackgroundRun, ...given: Parameters<typeof events>) {
      watching++;
      try {
        yield* events.apply(this, given);
      } finally {
        watching--;
      }
    },
  });
  const { id } = await (await post(`${app.url}/v1/responses`, { input: 'x', background: true })).json() as { id: string };
  const leaver = new AbortController();
  const streams = await Promise.all([1, 2, 3].map(() => fetch(`${app.url}/v1/responses/${id}?stream=true`, { signal: leaver.signal })));
  t.strictSame(streams.map(({ status }) => status), [200, 200, 200]);
  await until(() => watching === 3);
  leaver.abort();
  await until(() => watching === 0);
  t.match(await (await fetch(`${app.url}/v1/responses/${id}`)).json(), { status: /^(queued|in_progress)$/ }, 'which goes on');
});
