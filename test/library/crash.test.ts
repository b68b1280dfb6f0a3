import t from 'tap';
import { loadModel } from 'recua';
import { servingModelOf } from '#recua/library/model.js';
import { codeOf, endless } from './modes.js';

t.test('kill -9 of an isolated engine is reported, and the model comes back', async (t) => {
  const model = await loadModel('builtin', { isolated: true, parallel: 1 });
  t.teardown(() => model.dispose());
  const events: string[] = [];
  model.on('crashed', (error) => events.push(`crashed ${error.code}`));
  model.on('ready', (info) => events.push(`ready ${info.id}`));
  model.on('loading', () => events.push('loading'));
  const lines: string[] = [];
  model.on('log', (level, text) => lines.push(`${level} ${text}`));
  const running = model.chat('Tell me a story', endless);
  for await (const { content } of running) if (content) break;
  const begun = model.chat('Tell me a story', endless);
  for await (const { content } of begun) {
    if (!content) continue;
    process.kill(servingModelOf(model).engine.pid!, 'SIGKILL');
    break;
  }
  const other = model.chat('Hello!', { temperature: 0 });
  t.match(await other, { finishReason: 'stop' }, 'what had not begun runs in the next process');
  t.equal(events[0], 'crashed model_crashed');
  t.equal(events.at(-1), 'ready builtin');
  t.ok(lines.some((line) => /SIGKILL/.test(line)));
});

t.test('a listener that throws does not keep the model from coming back', async (t) => {
  const model = await loadModel('builtin', { isolated: true, parallel: 1 });
  t.teardown(() => model.dispose());
  const thrown: string[] = [];
  const noted = (error: Error): void => void thrown.push(error.message);
  process.setUncaughtExceptionCaptureCallback(noted);
  t.teardown(() => process.setUncaughtExceptionCaptureCallback(null));
  model.on('crashed', () => { throw new Error('of a listener'); });
  process.kill(servingModelOf(model).engine.pid!, 'SIGKILL');
  while (thrown.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  t.match(await model.chat('Hello!', { temperature: 0, signal: AbortSignal.timeout(20_000) }), { finishReason: 'stop' });
  t.strictSame(thrown, ['of a listener']);
});

t.test('template options that no message can hold outlive no request', async (t) => {
  const model = await loadModel('builtin', { isolated: true, parallel: 1 });
  t.teardown(() => model.dispose());
  t.match(await model.chat('Hello!', { temperature: 0, templateOptions: { now: () => 1, later: Promise.resolve() } }), { finishReason: 'stop' });
  process.kill(servingModelOf(model).engine.pid!, 'SIGKILL');
  t.match(await model.chat('Hello!', { temperature: 0 }), { finishReason: 'stop' });
});

t.test('an answer continues when the engine dies; one that kills it twice rejects with model_crashed', async (t) => {
  const model = await loadModel('builtin', { isolated: true });
  t.teardown(() => model.dispose());
  const options = { temperature: 0, maxTokens: 400, ignoreEos: true };
  const expected = await model.complete('Once upon a time', options);
  const reply = model.complete('Once upon a time', options);
  let deaths = 0;
  for await (const { content } of reply) {
    if (content && deaths++ === 0) process.kill(servingModelOf(model).engine.pid!, 'SIGKILL');
  }
  t.equal((await reply).content, expected.content);
  const killing = model.chat('Tell me a story', endless);
  let over = false;
  const code = codeOf(killing).finally(() => (over = true));
  for (let last = 0; !over;) {
    const { pid, state } = servingModelOf(model).engine;
    if (state.state === 'ready' && state.status.running > 0 && pid !== last) process.kill(last = pid!, 'SIGKILL');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  t.equal(await code, 'model_crashed');
  t.match(await model.chat('Hello!', { temperature: 0 }), { finishReason: 'stop' });
});
