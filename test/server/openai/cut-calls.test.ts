// A stop string within a tool call, with the built-in model: the client must not take the partial
// call for one that it may run.
import t from 'tap';
import { post } from '../app-under-test.js';
import { startRealApp } from '../real-engine.js';

const messages = [{ role: 'user', content: 'What is the weather in Paris?' }];
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };

t.test('a call that a stop string cuts off is not a finished call', async (t) => {
  const { url } = await startRealApp(t);
  const asked = { messages, tools: [{ type: 'function', function: { name: 'get_weather', parameters } }], temperature: 0, max_tokens: 60 };
  const ask = async (path: string, body: object) => await (await post(url + path, body)).json();
  const chat = await ask('/v1/chat/completions', { ...asked, stop: ['Par'] });
  t.match(chat, { choices: [{ finish_reason: 'stop' }], warnings: [/within a tool call/] });
  t.match(await ask('/v1/chat/completions', asked), { choices: [{ finish_reason: 'tool_calls', message: { tool_calls: [{ function: { arguments: /Paris/ } }] } }] });
  const streamed = await (await post(`${url}/v1/chat/completions`, { ...asked, stop: ['Par'], stream: true })).text();
  t.match(streamed, /"finish_reason":"stop"/);
  const message = await ask('/v1/messages', {
    model: 'default', messages, tools: [{ name: 'get_weather', input_schema: parameters }], temperature: 0, max_tokens: 60, stop_sequences: ['Par'],
  });
  t.match(message, { stop_reason: 'stop_sequence', stop_sequence: 'Par' });
  const options = { temperature: 0, num_predict: 60, stop: ['Par'] };
  for (const stream of [false, true]) {
    const asked = { model: 'default', messages, tools: [{ type: 'function', function: { name: 'get_weather', parameters } }], options, stream };
    const said = (await (await post(`${url}/api/chat`, asked)).text()).trim().split('\n').map((line) => JSON.parse(line) as Record<string, any>);
    t.notOk(said.some(({ message: { tool_calls } }) => tool_calls), 'Ollama has no mark of a cut call');
    t.match(said.map(({ message: { content } }) => content as string).join(''), /get_weather \{"city": ?"$/);
    t.match(said.at(-1), { done: true, warnings: [/cut/] });
  }
});
