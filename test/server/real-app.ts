// A server over the built-in model, for tests of what is enforced during sampling; optionally with
// another chat template.
import { readFileSync } from 'node:fs';
import type { Test } from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import type { Engine } from '#recua/engine/api.js';
import type { EngineOptions } from '#recua/engine/protocol.js';
import { builtinPath } from '#recua/models/store.js';
import { options } from '../engine/requests.js';
import { post, startApp } from './app-under-test.js';

const templates = new URL('../../vendor/llama.cpp/models/templates/', import.meta.url);

export interface RealApp {
  url: string;
  engine: Engine;
  /** The reply as JSON; the status must be 200. */
  ask(path: string, body: object): Promise<any>;
  /** Status and error of a refused request. */
  refused(path: string, body: object): Promise<{ status: number; error: any }>;
  /** The data of the events of a stream. */
  stream(path: string, body: object): Promise<any[]>;
}

export async function startReal(t: Test, template = '', more: Partial<EngineOptions> = {}): Promise<RealApp> {
  const chatTemplate = template.endsWith('.jinja') ? readFileSync(new URL(template, templates), 'utf8') : template;
  const engine = startEngine({ ...options, modelPath: builtinPath, contextSize: 2_048, parallel: 2, ...more, chatTemplate });
  t.teardown(() => engine.close());
  await engine.ready();
  const { url } = await startApp(t, {}, engine);
  return {
    url, engine,
    async ask(path, body) {
      const res = await post(url + path, { temperature: 0, ...body });
      const text = await res.text();
      if (res.status !== 200) throw new Error(`${res.status}: ${text}`);
      return JSON.parse(text);
    },
    async refused(path, body) {
      const res = await post(url + path, body);
      const { error } = await res.json();
      return { status: res.status, error };
    },
    async stream(path, body) {
      const text = await (await post(url + path, { temperature: 0, ...body, stream: true })).text();
      return [...text.matchAll(/^data: (\{.*\})$/gm)].map(([, data]) => JSON.parse(data!));
    },
  };
}

export const chatPath = '/v1/chat/completions';
export const user = (content: string) => [{ role: 'user', content }];
