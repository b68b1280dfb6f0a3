// Batches while the clock is set, as after a machine slept or found out what time it is.
import { writeFile } from 'node:fs/promises';
import t, { type Test } from 'tap';
import { Fields } from '#recua/request/fields.js';
import { readBatch } from '#recua/server/batches/batch-request.js';
import { BatchStore, type Batch } from '#recua/server/batches/batch-store.js';
import { Idle } from '#recua/server/batches/idle.js';
import { BatchQueue } from '#recua/server/batches/queue.js';
import { FileStore } from '#recua/server/files/file-store.js';
import type { Gateway } from '#recua/server/http/gateway.js';
import type { InnerReply } from '#recua/server/http/inner.js';
import { Traffic } from '#recua/server/http/traffic.js';
import { KeptFolder } from '#recua/server/kept/kept-folder.js';
import { makeConfig } from '#recua/settings/config.js';
import { ownFolder, until } from '../app-under-test.js';

const dayMs = 86_400_000;
const url = '/v1/chat/completions';
const reply = (status: number, body: object): InnerReply => ({ status, requestId: '', body: Buffer.from(JSON.stringify(body)), ...(status === 429 ? { retryAfterSeconds: 3_600 } : {}) });
const refused = (): InnerReply => reply(429, { error: { message: '', type: '', param: null, code: 'rate_limit_exceeded' } });

/** A queue with one batch of one line, whose clock can be set. */
async function queueOf(t: Test, ask: (signal: AbortSignal) => Promise<InnerReply>, seconds = dayMs / 1_000) {
  const kept = new KeptFolder(ownFolder(t));
  const [store, files, traffic] = [new BatchStore(kept), new FileStore(kept), new Traffic()];
  const inner = { ask: async ({ signal }: { signal: AbortSignal }) => await ask(signal) };
  const gateway = { traffic, inner, config: makeConfig({}), log: () => undefined } as unknown as Gateway;
  const queue = new BatchQueue({ gateway, store, files, idle: new Idle(traffic, 1, 0) }, { lookMs: 5 });
  const real = Date.now;
  let aheadMs = 0;
  t.intercept(Date, 'now', { value: () => real() + aheadMs });
  const record = readBatch(Fields.of({ input_file_id: 'x', endpoint: url, completion_window: '24h' }));
  record.batch.expires_at = record.batch.created_at + seconds;
  const { id } = record.batch;
  await writeFile(await store.inputOf(id), JSON.stringify({ custom_id: 'a', method: 'POST', url, body: {} }));
  await store.put(record);
  queue.add(id, undefined);
  const ended = async (): Promise<Batch> => {
    for (;;) {
      const { batch } = await store.get(id);
      if (['completed', 'expired', 'cancelled'].includes(batch.status)) return batch;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  return { store, queue, id, ended, setAhead: (ms: number) => void (aheadMs = ms) };
}

/** An answer that does not end by itself. */
async function hang(signal: AbortSignal): Promise<InnerReply> {
  return await new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
}

t.test('a batch that waits for midnight goes on when the clock is set', async (t) => {
  for (const ms of [dayMs / 2, -dayMs]) {
    let asked = 0;
    const { ended, setAhead } = await queueOf(t, async () => (++asked === 1 ? refused() : reply(200, {})));
    await until(() => asked === 1);
    // Its turn ends, and it waits.
    await new Promise((resolve) => setTimeout(resolve, 30));
    setAhead(ms);
    t.match(await ended(), { status: 'completed', request_counts: { completed: 1 } }, `${ms} ms`);
    t.equal(asked, 2);
  }
});

t.test('a batch expires when the clock shows it, in the middle of a line', async (t) => {
  let asked = 0;
  const { ended, setAhead } = await queueOf(t, async (signal) => {
    asked++;
    return await hang(signal);
  });
  await until(() => asked === 1);
  setAhead(dayMs);
  t.match(await ended(), { status: 'expired', request_counts: { failed: 1 } });
  t.equal(asked, 1);
});

t.test('a batch can be cancelled after the clock was set back', async (t) => {
  const lines: AbortSignal[] = [];
  const ask = async (signal: AbortSignal): Promise<InnerReply> => {
    lines.push(signal);
    return await hang(signal);
  };
  const { store, queue, id, ended, setAhead } = await queueOf(t, ask, 5);
  await until(() => lines.length === 1);
  setAhead(-dayMs);
  // Until it would have expired, had the clock not been set.
  await new Promise((resolve) => setTimeout(resolve, 5_100));
  t.equal(lines.length, 1, 'the line runs on');
  await queue.cancel(await store.get(id));
  t.match(await ended(), { status: 'cancelled', request_counts: { completed: 0 } });
});
