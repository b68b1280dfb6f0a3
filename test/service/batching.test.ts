// Continuous batching on the real engine: other requests never change an answer.
import t from 'tap';
import { ask, chat, post, startService, type Message } from './service.js';

const prompts = [
  'Hello!', 'What are you?', 'What is 3 + 4?', 'What is the capital of France?', 'Repeat: the llama walks home', 'Count to 30', 'Tell me a story',
  'How do I get a real model?', 'How many days are in a week?', 'What is the largest planet?', 'My name is Zorblax.', 'Thanks, bye!',
  'What is 12 + 7?', 'Say exactly: blue birds sing at dawn', 'Count to 12', 'What is the meaning of xyzzy frobnication?',
];

t.test('16 concurrent chats equal their solo runs', async (t) => {
  const { url } = await startService(t, ['--parallel', '16']);
  const solo: string[] = [];
  for (const prompt of prompts) solo.push(await ask(url, prompt, { max_tokens: 120 }));
  t.ok(new Set(solo).size > 10, 'the answers differ from each other');
  for (let round = 0; round < 3; round++) {
    const together = await Promise.all(prompts.map((prompt) => ask(url, prompt, { max_tokens: 120 })));
    t.same(together, solo, `round ${round}`);
  }
});

t.test('requests beyond the sequences wait, and all are answered', async (t) => {
  const { url } = await startService(t, ['--parallel', '2', '-c', '1024']);
  const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => ask(url, `What is ${i % 10} + 2?`, { max_tokens: 40 })));
  t.equal(answers.filter((answer) => answer.length > 0).length, 20);
  for (let i = 0; i < 10; i++) t.equal(answers[i + 10], answers[i]);
});

t.test('no answer holds another request’s secret', async (t) => {
  const { url } = await startService(t, ['--parallel', '4', '-c', '512']);
  const secret = (i: number) => String(100_000 + i * 7919);
  const answers = await Promise.all(Array.from({ length: 60 }, async (_, i) => {
    const request = ask(url, `Repeat: ${secret(i)}`, { max_tokens: 24 });
    // Every fifth client also starts a request and leaves midway.
    if (i % 5 === 0) {
      const left = await post(url, '/v1/chat/completions', { messages: [{ role: 'user', content: `Repeat: ${secret(i + 500)}` }], stream: true });
      await left.body!.cancel();
    }
    return request;
  }));
  for (const [i, answer] of answers.entries()) {
    for (let j = 0; j < 60; j++) if (j !== i && answer.includes(secret(j))) t.fail(`answer ${i} holds the secret of ${j}: ${answer}`);
  }
  t.ok(answers.filter((answer, i) => answer.includes(secret(i))).length > 50, 'and nearly all hold their own');
});

t.test('the second turn of a chat evaluates only its new tokens', async (t) => {
  const { url } = await startService(t, ['--parallel', '2']);
  const messages: Message[] = [{ role: 'user', content: 'Hello! My name is Wilhelmina.' }];
  const first = await chat(url, messages);
  messages.push({ role: 'assistant', content: first.choices[0]!.message.content }, { role: 'user', content: 'What is my name?' });
  const second = await chat(url, messages);
  t.match(second.choices[0]!.message.content, /Wilhelmina/);
  const { prompt_tokens, prompt_tokens_details } = second.usage;
  t.ok(prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens, `${prompt_tokens_details.cached_tokens} of ${prompt_tokens} tokens were cached`);
  const cold = await startService(t, ['--parallel', '1']);
  t.equal((await chat(cold.url, messages)).choices[0]!.message.content, second.choices[0]!.message.content, 'a cached prefix changes nothing');
});

t.test('a stream continues while a long prompt is read', async (t) => {
  // A fast machine reads the prompt in one step otherwise.
  const { url } = await startService(t, ['--parallel', '2', '--batch-size', '64']);
  const stream = await post(url, '/v1/chat/completions', { messages: [{ role: 'user', content: 'Count to 100' }], stream: true, temperature: 0, ignore_eos: true, max_tokens: 2500 });
  const reader = stream.body!.getReader();
  await reader.read();
  let eventsMeanwhile = 0;
  let reading = true;
  const pump = (async () => {
    while (reading) {
      const { done, value } = await reader.read();
      if (done) return;
      // On a busy machine, one read gets the events of several steps.
      eventsMeanwhile += Buffer.from(value).toString().split('data: ').length - 1;
    }
  })();
  await ask(url, 'word '.repeat(1500), { max_tokens: 4 });
  reading = false;
  t.ok(eventsMeanwhile >= 2, `${eventsMeanwhile} events came meanwhile`);
  await pump;
  await reader.cancel();
});

t.test('a client that leaves frees its sequence, in the queue, in the prompt and in the answer', async (t) => {
  const { url } = await startService(t, ['--parallel', '1']);
  const health = async () => (await (await fetch(`${url}/health`)).json()) as { running: number; waiting: number };
  const idle = async () => {
    for (let i = 0; i < 400; i++) {
      const { running, waiting } = await health();
      if (running + waiting === 0) return true;
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    return false;
  };
  const endless = { messages: [{ role: 'user', content: 'Tell me a story' }], ignore_eos: true, max_tokens: 3500 };
  const decoding = (await post(url, '/v1/chat/completions', { ...endless, stream: true })).body!.getReader();
  await decoding.read();
  const queued = new AbortController();
  const waiting = post(url, '/v1/chat/completions', endless, queued.signal).catch((error: Error) => error.name);
  for (let i = 0; i < 400 && (await health()).waiting === 0; i++) await new Promise((resolve) => setTimeout(resolve, 10));
  t.equal((await health()).waiting, 1);
  queued.abort();
  t.equal(await waiting, 'AbortError');
  await decoding.cancel();
  t.ok(await idle(), 'nothing runs after both left');
  const reading = new AbortController();
  const prompt = post(url, '/v1/chat/completions', { messages: [{ role: 'user', content: 'word '.repeat(3000) }] }, reading.signal).catch((error: Error) => error.name);
  for (let i = 0; i < 400 && (await health()).running === 0; i++) await new Promise((resolve) => setTimeout(resolve, 2));
  reading.abort();
  t.equal(await prompt, 'AbortError');
  t.ok(await idle(), 'nothing runs after the long prompt was left');
  t.match(await ask(url, 'What is the capital of France?'), /Paris/);
});
