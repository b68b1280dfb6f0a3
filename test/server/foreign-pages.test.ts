// What a web page of another site, and an address that is none, can do: nothing.
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { post, startApp } from './app-under-test.js';

t.test('a page of another site loads and unloads no model', async (t) => {
  const { url } = await startApp(t);
  const page = { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' };
  for (const [path, body] of [['/models/load', { model: 'small' }], ['/models/unload', { model: 'small' }], ['/api/generate', { model: 'small', keep_alive: 0 }], ['/api/chat', { model: 'small', messages: [] }]] as const) {
    t.equal((await post(`${url}${path}`, body, page)).status, 403, path);
    t.not((await post(`${url}${path}`, body)).status, 403, `${path} from a program`);
  }
});

t.test('an address that is no URL is an ordinary one', async (t) => {
  const { url } = await startApp(t);
  const { hostname, port } = new URL(url);
  for (const path of ['http://x:99999/props', '//x:99999/props']) {
    const socket = connect(Number(port), hostname);
    socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    t.notMatch(await text(socket), /^HTTP\/1.1 5/, path);
  }
});
