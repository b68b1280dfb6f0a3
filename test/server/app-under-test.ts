// Starts the server under test. openai.test and fuzz.test need only a URL, so that the same tests
// run over a real engine: RECUA_TEST_URL=http://127.0.0.1:8080 names a running server, or give
// startApp an engine.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { makeConfig, type Config } from '#recua/settings/config.js';
import type { Engine } from '#recua/engine/api.js';
import { singleModel } from '#recua/engine/model-pool/single-model.js';
import { listen, type Listening, type ListenOptions } from '#recua/server/listen.js';
import { FakeEngine } from './fake-engine.js';

export const served = { id: 'owner/model', aliases: ['small'], unlisted: ['/folder/small.gguf'], createdSeconds: 1_700_000_000 };

export interface AppUnderTest<Kind extends Engine = FakeEngine> extends Listening {
  engine: Kind;
  logged: string[];
}

export async function startApp(t: Test, config?: Partial<Config>): Promise<AppUnderTest>;
export async function startApp<Kind extends Engine>(
  t: Test,
  config: Partial<Config>,
  engine: Kind,
  more?: Partial<ListenOptions>,
): Promise<AppUnderTest<Kind>>;
export async function startApp(
  t: Test,
  config: Partial<Config> = {},
  engine: Engine = new FakeEngine(),
  more: Partial<ListenOptions> = {},
): Promise<AppUnderTest<Engine>> {
  const logged: string[] = [];
  const log = (level: string, text: string): void => void logged.push(`${level} ${text}`);
  const listening = await listen({ pool: singleModel(engine, served), config: makeConfig({ port: 0, ...config }), log, ...more });
  t.teardown(() => listening.close(0));
  return { ...listening, engine, logged };
}

/**
 * A folder that exists until the app has ended: t.testdir() is removed while the app may still
 * write.
 */
export function ownFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'recua-kept-test-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

/** The server for tests that suit any engine. */
export async function subjectUrl(t: Test): Promise<string> {
  return process.env['RECUA_TEST_URL'] ?? (await startApp(t)).url;
}

export function post(url: string, body: unknown, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });
}

export const hello = { messages: [{ role: 'user', content: 'hello wide world' }] };

/** The data of each event of a stream, `[DONE]` included. */
export function events(text: string): string[] {
  return text.split('\n\n').filter(Boolean).map((event) => event.replace(/^data: /, ''));
}

/** Waits at most a minute for a condition that another process or the event loop brings about. */
export async function until(condition: () => boolean): Promise<void> {
  // Not a clock, which some tests set.
  const over = AbortSignal.timeout(60_000);
  while (!condition()) {
    if (over.aborted) throw new Error(`never came true: ${condition.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
