// What the server says of itself over HTTP, for `recua serve`.
import { reachable } from '../servers/server-client.js';

export interface Health {
  status: 'ok' | 'loading' | 'stopping' | 'error';
  /** 0 to 1 while a model loads. */
  progress: number;
  running: number;
  waiting: number;
  requests: number;
  crashes: number;
  /** Why it cannot answer, where it cannot. */
  problem: string;
}

const answerMs = 3_000;

/** GET /health; undefined where nothing, or something else, answers. */
export async function askHealth(url: string): Promise<Health | undefined> {
  if (url === '') return undefined;
  try {
    const reply = await fetch(`${reachable(url)}/health`, { signal: AbortSignal.timeout(answerMs), redirect: 'error' });
    const body = await reply.json() as Record<string, unknown>;
    const status = (['ok', 'loading', 'stopping', 'error'] as const).find((one) => one === body['status']);
    if (status === undefined) return undefined;
    const count = (name: string) => (typeof body[name] === 'number' ? body[name] : 0);
    const problem = status === 'error' ? (body['error'] as { message?: unknown } | undefined)?.message : undefined;
    return {
      status, progress: count('progress'), running: count('running'), waiting: count('waiting'), requests: count('requests'), crashes: count('crashes'),
      problem: typeof problem === 'string' ? problem : '',
    };
  } catch {
    return undefined;
  }
}
