// Whatever a stream waits for, in each dialect it sends something that clients count as a sign of
// life.
import t from 'tap';
import { post, startApp } from '../app-under-test.js';
import { deferred } from '../../deferred.js';
import { RecuaError } from '#recua/errors.js';

const messages = [{ role: 'user', content: 'hello' }];
const dialects: [path: string, body: object, isPing: RegExp, failure: RegExp][] = [
  ['/v1/chat/completions', { messages, stream: true }, /^data: \{.*"delta":\{\},/, /"code":"context_length_exceeded"/],
  ['/v1/completions', { prompt: 'x', stream: true }, /^data: \{.*"text":""/, /"code":"context_length_exceeded"/],
  ['/v1/messages', { messages, stream: true, max_tokens: 5 }, /^event: ping\ndata: \{"type":"ping"\}/, /event: error\ndata: \{.*invalid_request_error/],
  ['/v1/responses', { input: 'x', stream: true }, /^event: response.in_progress\ndata: \{.*"sequence_number":\d/, /"code":"context_length_exceeded"/],
  ['/api/chat', { messages }, /^\{.*"content":"".*"done":false\}/, /"error":"/],
  ['/api/generate', { prompt: 'x' }, /^\{.*"response":"".*"done":false\}/, /"error":"/],
];

for (const [path, body, isPing, failure] of dialects) {
  t.test(`${path}: a waiting stream says so with data`, async (t) => {
    const { url, engine } = await startApp(t, { pingIntervalMs: 5 });
    const framesOf = (text: string): string[] => text.split(path.startsWith('/api') ? '\n' : '\n\n').filter(Boolean);
    const follow = async (proceed: () => void): Promise<string> => {
      const res = await post(url + path, body);
      t.equal(res.status, 200);
      const reader = res.body!.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      while (framesOf(text).filter((frame) => isPing.test(frame)).length < 4) text += (await reader.read()).value;
      proceed();
      for (let read = await reader.read(); !read.done; read = await reader.read()) text += read.value;
      return text;
    };
    // First accepted, with the prompt being read; then not even accepted.
    const { promise: mayAnswer, resolve: speak } = deferred();
    engine.script = async function* () {
      await mayAnswer;
      yield { content: 'at last' };
    };
    t.match(await follow(speak), /at last/);
    engine.script = async function* () { yield { content: 'at last' }; };
    const first = deferred();
    engine.acceptAfter = first.promise;
    t.match(await follow(first.resolve), /at last/);
    // Errors are then reported in the stream.
    const second = deferred();
    engine.acceptAfter = second.promise;
    engine.early = new RecuaError('context_length_exceeded', 'Too long.', { param: 'messages' });
    t.match(await follow(second.resolve), failure);
  });
}
