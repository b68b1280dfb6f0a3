// The managed server's own health report over HTTP, for `recua serve`.
import { wayTo } from '../servers/connection.js';
import type { Address } from '../servers/connection.js';
import { runningServers } from '../servers/registry.js';

export interface Health {
  status: 'ok' | 'loading' | 'stopping' | 'error';
  /** 0 to 1 while a model loads. */
  progress: number;
  running: number;
  waiting: number;
  requests: number;
  crashes: number;
  /** On a server of several models: the state of each. */
  models: readonly { id: string; state: string }[];
  /** Why it cannot answer; '' if it can. */
  problem: string;
}

const answerMs = 3_000;

/** GET /health; undefined if nothing answers, or something other than Recua. */
export async function askHealth(address: Address | undefined): Promise<Health | undefined> {
  if (address === undefined || address.url === '') return undefined;
  try {
    const { default: fetch } = await import('node-fetch');
    const { base, agent } = wayTo(address);
    const reply = await fetch(`${base}/health`, { signal: AbortSignal.timeout(answerMs), redirect: 'error', headers: await ownKey(address), ...(agent ? { agent } : {}) });
    const body = await reply.json() as Record<string, unknown>;
    const status = (['ok', 'loading', 'stopping', 'error'] as const).find((one) => one === body['status']);
    if (status === undefined) return undefined;
    const count = (name: string) => (typeof body[name] === 'number' ? body[name] : 0);
    const problem = status === 'error' ? (body['error'] as { message?: unknown } | undefined)?.message : undefined;
    return {
      status, progress: count('progress'), running: count('running'), waiting: count('waiting'), requests: count('requests'), crashes: count('crashes'),
      models: readModels(body['models']),
      problem: typeof problem === 'string' ? problem : '',
    };
  } catch {
    return undefined;
  }
}

/** Without a key a server does not say why a model failed. */
async function ownKey({ url }: Address): Promise<Record<string, string>> {
  const key = (await runningServers()).find((server) => server.url === url)?.key;
  return key === undefined ? {} : { Authorization: `Bearer ${key}` };
}

function readModels(value: unknown): Health['models'] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value as Record<string, { value?: unknown; fraction?: unknown } | null>).map(([id, status]) => {
    const state = String(status?.value);
    return { id, state: typeof status?.fraction === 'number' ? `${state} ${Math.floor(status.fraction * 100)} %` : state };
  });
}
