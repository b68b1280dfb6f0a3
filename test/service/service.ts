// The whole service as a user runs it: `recua api` as a child process on a free port, and helpers
// for its tests.
import { execFileSync } from 'node:child_process';
import type { Test } from 'tap';
import { gpuFlags } from '../device.js';
import { start, type Options, type Running } from '../cli/recua.js';

export interface Service extends Running {
  url: string;
}

export interface Message {
  role: string;
  content?: string | null;
  tool_calls?: object[];
  tool_call_id?: string;
}

export interface Reply {
  choices: {
    message: { content: string | null; tool_calls?: { id: string; function: { name: string; arguments: string } }[] };
    finish_reason: string;
  }[];
  usage: { prompt_tokens: number; completion_tokens: number; prompt_tokens_details: { cached_tokens: number } };
}

export async function startService(t: Test, args: readonly string[] = [], model = 'builtin', options: Options = {}): Promise<Service> {
  const running = start(['api', model, '--port', '0', ...gpuFlags, ...args], options);
  t.teardown(async () => {
    if (running.child.exitCode === null && running.child.signalCode === null) running.child.kill('SIGTERM');
    await running.ended;
  });
  const [, url] = await running.saw(/Recua listens on (http:\/\/\S+)/);
  return { ...running, url: url! };
}

/** The only child of the gateway. */
export const enginePid = (gateway: number): number => Number(execFileSync('ps', ['-o', 'pid=', '--ppid', String(gateway)], { encoding: 'utf8' }).trim().split('\n')[0]);

export const post = (url: string, path: string, body: unknown, signal?: AbortSignal): Promise<Response> =>
  fetch(`${url}${path}`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(signal ? { signal } : {}),
  });

/** A greedy answer, not streamed. */
export async function chat(url: string, messages: Message[], more: object = {}): Promise<Reply> {
  const response = await post(url, '/v1/chat/completions', { messages, temperature: 0, ...more });
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return (await response.json()) as Reply;
}

export const ask = async (url: string, content: string, more: object = {}): Promise<string> =>
  (await chat(url, [{ role: 'user', content }], more)).choices[0]!.message.content ?? '';

export const weatherTool = {
  type: 'function',
  function: { name: 'get_weather', description: 'Get the weather of a city', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } },
};
