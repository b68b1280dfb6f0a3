// A connection between browser and server that a test can cut: a proxy that passes bytes on.
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { Test } from 'tap';

export interface Cable {
  url: string;
  /** Ends all connections and blocks new ones. */
  cut(): void;
  /** Loses what goes over all connections and new ones, as a firewall does that forgot them. */
  silence(): void;
  /** Connects to the server at this address, or to the last one. */
  mend(url?: string): void;
}

export async function cable(t: Test, url: string): Promise<Cable> {
  let to: string | undefined = url;
  let last = url;
  const open = new Set<Socket>();
  const lost = new WeakSet<Socket>();
  let isSilent = false;
  const proxy = createServer((near) => {
    open.add(near.on('error', () => undefined).on('close', () => open.delete(near)));
    if (to === undefined) return void near.destroy();
    if (isSilent) {
      lost.add(near);
      return void near.resume();
    }
    const { hostname, port } = new URL(to);
    const far = connect(Number(port), hostname);
    far.on('error', () => near.destroy()).on('close', () => near.destroy());
    near.on('close', () => far.destroy());
    near.on('data', (bytes) => lost.has(near) || far.write(bytes));
    far.on('data', (bytes) => lost.has(near) || near.write(bytes));
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const cut = (): void => {
    to = undefined;
    for (const socket of open) socket.destroy();
  };
  t.teardown(() => {
    cut();
    proxy.close();
  });
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, cut,
    silence() {
      isSilent = true;
      for (const socket of open) lost.add(socket);
    },
    mend(next = last) {
      isSilent = false;
      to = last = next;
    },
  };
}
