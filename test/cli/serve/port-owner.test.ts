import t from 'tap';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { listeningSockets, portOwner } from '#recua/cli/serve/port-owner.js';

t.test('portOwner() names the process that listens, on IPv4 and IPv6', async (t) => {
  for (const host of ['127.0.0.1', '::']) {
    const server = createServer().listen(0, host);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    t.match(await portOwner(port), { pid: process.pid, name: /node/ }, host);
    server.close();
    await once(server, 'close');
    t.equal(await portOwner(port), undefined, 'nobody any more');
  }
});

t.test('listeningSockets() takes sockets in state 0A with the port, whatever their address', (t) => {
  const table = [
    '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode',
    '   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0',
    '   1: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0',
    '   2: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 333 1 0',
    '   3: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 444 1 0',
    '',
  ].join('\n');
  t.same(listeningSockets(table, 8080), ['111', '444']);
  t.same(listeningSockets(table, 80), []);
  t.end();
});
