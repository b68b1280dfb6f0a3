// Models that swap and keep conversations, as clients of `recua api` see them.
import { copyFileSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { builtinPath } from '#recua/models/store.js';
import { until } from '../cli/home.js';
import { start } from '../cli/recua.js';
import { chat, post, type Message } from './service.js';

const questions = ['Tell me about the mountains.', 'How many llamas has a pack train?', 'Hello! Who are you?', 'Say it again.'];

/** Two names for the built-in model, and their own folder for temporary files. */
async function serve(t: Test, name: string, ...flags: string[]) {
  const folder = t.testdirName;
  const temporary = join(folder, 'tmp');
  mkdirSync(temporary, { recursive: true });
  for (const id of ['a', 'b']) if (!existsSync(join(folder, `${id}.gguf`))) copyFileSync(builtinPath, join(folder, `${id}.gguf`));
  writeFileSync(join(folder, `${name}.json`), JSON.stringify({ models: { a: { model: 'a.gguf' }, b: { model: 'b.gguf' } } }));
  const running = start(['api', '--models', join(folder, `${name}.json`), '--port', '0', '--threads', '1', '--parallel', '2', '--ctx-size', '0', ...flags], { env: { TMPDIR: temporary } });
  t.teardown(async () => {
    if (running.child.exitCode === null && running.child.signalCode === null) running.child.kill('SIGTERM');
    await running.ended;
  });
  const [, url] = await running.saw(/Recua listens on (http:\/\/\S+)/);
  const states = async () => {
    const { data } = await (await fetch(`${url!}/v1/models`)).json() as { data: { status: { value: string } }[] };
    return data.map(({ status }) => status.value);
  };
  const kept = () => readdirSync(temporary).filter((one) => one.startsWith('recua-sleep-'));
  return { running, url: url!, states, kept };
}

async function turn(url: string, model: string, said: Message[], question: string, more: object = { max_tokens: 16 }) {
  said.push({ role: 'user', content: question });
  const { choices, usage } = await chat(url, said, { model, ...more });
  const { content } = choices[0]!.message;
  said.push({ role: 'assistant', content });
  return { content, usage };
}

t.test('conversations with two models in turns, with room for one: the second turn evaluates its own tokens only', async (t) => {
  t.testdir();
  const swapping = await serve(t, 'swapping', '--max-models', '1');
  const resident = await serve(t, 'resident');
  const said: Record<string, Message[]> = { a: [], b: [] };
  const same: Record<string, Message[]> = { a: [], b: [] };
  const before: Record<string, number> = { a: 0, b: 0 };
  for (const [i, question] of questions.entries()) {
    for (const id of ['a', 'b']) {
      const { content, usage } = await turn(swapping.url, id, said[id]!, question);
      t.strictSame({ content, usage }, await turn(resident.url, id, same[id]!, question), `${id} ${i}: as without a swap`);
      const { cached_tokens: cached } = usage.prompt_tokens_details;
      // All but the last token of the answer, which was never evaluated.
      if (i > 0) t.ok(cached >= before[id]! - 1, `${cached} of ${before[id]!} tokens`);
      before[id] = usage.prompt_tokens + usage.completion_tokens;
    }
    t.strictSame(await swapping.states(), ['sleeping', 'loaded']);
  }
  const unloaded = await post(swapping.url, '/models/unload', { model: 'b' });
  t.match(await unloaded.json(), { success: true, model: { status: { value: 'sleeping' } } });
  t.match(await (await fetch(`${swapping.url}/health`)).json(), { models: { a: { value: 'sleeping' }, b: { value: 'sleeping' } } });
});

t.test('an answer in unusual tokens keeps them while its model sleeps', async (t) => {
  t.testdir();
  const { url } = await serve(t, 'unusual');
  // The tokenizer splits most of these answers in another way than the model wrote them.
  const more = { regex: '[A-Z]{3}-[0-9]{6}-[a-z]{12}', max_tokens: 60, temperature: 1 };
  for (const seed of [1, 2, 3]) {
    const [slept, awake]: Message[][] = [[], []];
    for (let i = 0; i < 3; i++) {
      const one = await turn(url, 'a', slept!, `Number ${i} of ${seed}?`, { ...more, seed });
      t.match(await (await post(url, '/models/unload', { model: 'a' })).json(), { model: { status: { value: 'sleeping' } } });
      const other = await turn(url, 'b', awake!, `Number ${i} of ${seed}?`, { ...more, seed });
      t.equal(one.content, other.content);
      t.equal(one.usage.prompt_tokens, other.usage.prompt_tokens);
      const lost = other.usage.prompt_tokens_details.cached_tokens - one.usage.prompt_tokens_details.cached_tokens;
      t.ok(i === 0 || lost <= 1, `${lost} tokens are read again`);
    }
  }
});

t.test('--sleep-cache 0 keeps nothing, and a server that ends leaves nothing', async (t) => {
  t.testdir();
  const { url, states, kept, running } = await serve(t, 'none', '--sleep-cache', '0');
  await turn(url, 'a', [], questions[0]!);
  await post(url, '/models/unload', { model: 'a' });
  t.strictSame(await states(), ['unloaded', 'unloaded']);
  t.strictSame(kept(), []);
  running.child.kill('SIGTERM');
  await running.ended;
  const again = await serve(t, 'some');
  await turn(again.url, 'a', [], questions[0]!);
  await post(again.url, '/models/unload', { model: 'a' });
  t.equal(kept().length, 1);
  again.running.child.kill('SIGTERM');
  await again.running.ended;
  t.strictSame(kept(), []);
});

t.test('leftovers of a killed server are removed by the next one, also by one of a single model', async (t) => {
  t.testdir();
  const killed = await serve(t, 'killed');
  await turn(killed.url, 'a', [], questions[0]!);
  await post(killed.url, '/models/unload', { model: 'a' });
  t.equal(killed.kept().length, 1);
  killed.running.child.kill('SIGKILL');
  await killed.running.ended;
  t.equal(killed.kept().length, 1);
  const next = start(['api', 'builtin', '--port', '0', '--threads', '1'], { env: { TMPDIR: join(t.testdirName, 'tmp') } });
  t.teardown(async () => {
    next.child.kill('SIGTERM');
    await next.ended;
  });
  await next.saw(/Recua listens/);
  await until(() => killed.kept().length === 0);
  t.pass('it is gone');
});
