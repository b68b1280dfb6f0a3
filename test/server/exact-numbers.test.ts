// Numbers that JavaScript would round reach the client as the model wrote them.
import t from 'tap';
import { post, startApp } from './app-under-test.js';
import { FakeEngine } from './fake-engine.js';

t.test('the arguments of a call keep their digits where they are an object', async (t) => {
  const engine = new FakeEngine();
  engine.script = async function* () {
    yield { toolCalls: [{ index: 0, id: 'call_1', name: 'like', arguments: '{\n  "id": 1234567890123456789,' }] };
    yield { toolCalls: [{ index: 0, arguments: '\n  "x": 1e400}' }] };
  };
  const { url } = await startApp(t, {}, engine);
  const messages = [{ role: 'user', content: 'x' }];
  const ask = async (path: string, body: object) => await (await post(url + path, { messages, ...body })).text();
  const exact = '{   "id": 1234567890123456789,   "x": 1e400}';
  t.ok((await ask('/v1/messages', { max_tokens: 99 })).includes(`"input":${exact}`));
  t.ok((await ask('/api/chat', { stream: false })).includes(`"arguments":${exact}`));
  const lines = (await ask('/api/chat', {})).trim().split('\n');
  t.ok(lines.some((line) => line.includes(`"arguments":${exact}`)));
  for (const line of lines) t.ok(JSON.parse(line));
});
