import { connect } from 'node:net';
import t from 'tap';
import { hello, startApp, until } from '../app-under-test.js';

const path = '/v1/chat/completions';
/** More than the kernel buffers for a client that reads nothing. */
const text = 'x'.repeat(32 * 1024 * 1024);

for (const stream of [true, false]) {
  t.test(`a stop does not wait for a client that reads nothing of its ${stream ? 'stream' : 'answer'}`, async (t) => {
    const { port, engine, close } = await startApp(t);
    engine.script = async function* () { yield { content: text }; };
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    t.teardown(() => socket.destroy());
    const json = JSON.stringify({ ...hello, stream });
    socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${json.length}\r\n\r\n${json}`);
    socket.pause();
    await until(() => engine.running.size === 0 && engine.delivered === 1);
    // The engine is done, and the drain is longer than this test may take.
    await close(60 * 60_000);
    t.pass('closed');
  });
}

t.test('a stop waits for a client that reads slowly', async (t) => {
  const { port, engine, close } = await startApp(t);
  engine.script = async function* () { yield { content: text }; };
  const socket = connect(port, '127.0.0.1');
  const json = JSON.stringify({ ...hello, stream: true });
  socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${json.length}\r\n\r\n${json}`);
  let length = 0;
  let end = '';
  socket.on('data', (data) => {
    length += data.length;
    end = (end + data.toString('latin1')).slice(-100);
    socket.pause();
    setTimeout(() => socket.resume(), 2);
  });
  const gone = new Promise((resolve) => socket.once('close', resolve));
  await until(() => engine.delivered === 1);
  await close(60 * 60_000);
  await gone;
  t.ok(length > text.length);
  t.match(end, /\[DONE\]/);
});
