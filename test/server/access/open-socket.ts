// A WebSocket of an API key, for tests of what happens to it.
import type { Test } from 'tap';
import { WebSocket } from 'ws';

/** Resolves once it is open. `closed` resolves to the code with which it is closed. */
export async function openSocket(t: Test, url: string, key: string): Promise<{ socket: WebSocket; closed: Promise<number> }> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/responses`, { headers: { 'x-api-key': key } });
  t.teardown(() => socket.terminate());
  const closed = new Promise<number>((resolve) => socket.once('close', resolve));
  await new Promise((resolve) => socket.once('open', resolve));
  return { socket, closed };
}
