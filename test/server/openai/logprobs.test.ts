// Log probabilities over HTTP, with the built-in model.
import t from 'tap';
import { events, post } from '../app-under-test.js';
import { startRealApp } from '../real-engine.js';

interface Chance { id: number; token: string; bytes: number[]; logprob: number; prob?: number }
interface Told extends Chance { top_logprobs: Chance[]; top_probs?: Chance[] }
interface Choice {
  index: number;
  message?: { content: string | null };
  delta?: { content?: string; tool_calls?: { function: { arguments: string } }[] };
  text?: string;
  tokens?: number[];
  logprobs: { content: Told[] } | null;
  finish_reason: string | null;
}
interface Legacy {
  tokens: string[];
  token_logprobs: (number | null)[];
  top_logprobs: (Record<string, number> | null)[];
  text_offset: number[];
}

const messages = [{ role: 'user', content: 'Tell me a story' }];
const tool = { type: 'function', function: { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } } };

async function ask(url: string, body: object, path = '/v1/chat/completions'): Promise<{ choices: Choice[]; usage: { completion_tokens: number; completion_tokens_details?: object } }> {
  const response = await post(url + path, { temperature: 0, ...body });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${response.status} ${text}`);
  return JSON.parse(text);
}

async function stream(url: string, body: object, path = '/v1/chat/completions') {
  const all = events(await (await post(url + path, { temperature: 0, stream: true, ...body })).text());
  return all.filter((text) => text !== '[DONE]').map((text) => JSON.parse(text) as { choices: Choice[]; timings?: object; prompt_progress?: { total: number; processed: number; cache: number } });
}

const textOf = (told: readonly Told[]): string => Buffer.from(told.flatMap(({ bytes }) => bytes)).toString();

t.test('each token of a chat comes with the likeliest alternatives, whole and streamed', async (t) => {
  // With room for one conversation, so that a repeated prompt is cached.
  const { url } = await startRealApp(t, { parallel: 1 });
  const kinds: { name: string; body: object }[] = [
    { name: 'plain', body: { max_tokens: 60 } },
    { name: 'to its end', body: { messages: [{ role: 'user', content: 'What is 8 + 5?' }], max_tokens: 300 } },
    { name: 'a schema', body: { max_tokens: 60, response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object', properties: { a: { type: 'string', maxLength: 9 } }, required: ['a'] } } } } },
    { name: 'a stop string', body: { messages: [{ role: 'user', content: 'Count to 40' }], max_tokens: 200, stop: ['12'] } },
    { name: 'text that may begin a stop string', body: { messages: [{ role: 'user', content: 'Count to 40' }], max_tokens: 60, stop: ['1 2 3 4 5 7', '9 10 12'] } },
    { name: 'characters of several tokens', body: { max_tokens: 40, grammar: 'root ::= ("🦙" | "ü" | "北")+' } },
    { name: 'a tool call', body: { messages: [{ role: 'user', content: 'What is the weather in Paris?' }], tools: [tool], max_tokens: 100 } },
    { name: 'hot', body: { temperature: 2, seed: 5, top_k: 0, top_p: 1, min_p: 0, max_tokens: 40 } },
  ];
  for (const { name, body } of kinds) {
    const asked = { messages, logprobs: true, top_logprobs: 4, ...body };
    // A new prompt is evaluated in other steps than a cached one, and rounds differently.
    await ask(url, asked);
    const { choices: [choice], usage } = await ask(url, asked);
    const told = choice!.logprobs!.content;
    const ends = choice!.finish_reason === 'stop' && !('stop' in body) ? 1 : 0;
    if (!('stop' in body)) t.equal(told.length, usage.completion_tokens, `${name}: one for each token`);
    t.ok(
      told.every(
        ({ top_logprobs: top, logprob }) =>
          top.length === 4 && logprob <= top[0]!.logprob && top.every((one, at) => at === 0 || one.logprob <= top[at - 1]!.logprob),
      ),
      name,
    );
    if (choice!.message!.content !== null) {
      const text = textOf(told);
      t.ok(name === 'characters of several tokens' ? text.startsWith(choice!.message!.content!) : text.trim() === choice!.message!.content!.trim(), `${name}: ${text} is ${choice!.message!.content}, end ${ends}`);
    }
    const chunks = await stream(url, asked);
    t.strictSame(chunks.flatMap(({ choices }) => choices[0]?.logprobs?.content ?? []), told, `${name}: streamed as whole`);
    // Tokens come with their text: text that is held back holds back its tokens.
    let text = '';
    let read = '';
    for (const { choices: [part] } of chunks) {
      text += part?.delta?.content ?? '';
      read += textOf(part?.logprobs?.content ?? []);
      if (!('tools' in body) && name !== 'characters of several tokens') t.ok(text.startsWith(read.trimStart()) || read.trimStart().startsWith(text.trimStart()), `${name}: ${JSON.stringify([text, read])}`);
      if (name.startsWith('text that')) t.equal(read.trim(), text.trim(), name);
    }
  }
});

t.test('nothing is reported without a request, and 0 reports the token alone', async (t) => {
  const { url } = await startRealApp(t);
  t.equal((await ask(url, { messages, max_tokens: 3 })).choices[0]!.logprobs, null);
  const { choices: [choice] } = await ask(url, { messages, max_tokens: 3, logprobs: true });
  t.match(choice!.logprobs!.content, [{ top_logprobs: [] }]);
  const { choices } = await ask(url, { messages, max_tokens: 5, logprobs: true, top_logprobs: 2, n: 3, temperature: 1.5, seed: 2 });
  t.ok(choices.every(({ logprobs }) => logprobs!.content.length === 5), 'each of several answers has its own');
  const after = (await ask(url, { messages, max_tokens: 3, n_probs: 3, post_sampling_probs: true })).choices[0]!.logprobs!.content;
  t.match(after[0], { prob: 1, top_probs: [{ prob: 1 }] });
  t.same((await ask(url, { messages, max_tokens: 3, n_probs: 2, return_tokens: true })).choices[0]!.tokens, after.map(({ id }) => id));
});

t.test('completions report the prompt as lm-eval asks for it', async (t) => {
  const { url, engine } = await startRealApp(t);
  const prompt = 'The llama walks home. 🦙 ü and then it sleeps.';
  const tokens = Array.from(await engine.tokenize(prompt, true, true));
  const legacy = async (body: object): Promise<{ text: string; logprobs: Legacy; finish: string | null; index: number }[]> => (
    (await ask(url, body, '/v1/completions')).choices.map(({ text, logprobs, finish_reason: finish, index }) => ({ text: text!, logprobs: logprobs as unknown as Legacy, finish, index }))
  );
  const [one] = await legacy({ prompt, max_tokens: 1, echo: true, logprobs: 2 });
  t.ok(one!.text.startsWith(prompt));
  const { token_logprobs: values, top_logprobs: tops, text_offset: offsets, tokens: texts } = one!.logprobs;
  t.equal(values.length, tokens.length + 1);
  t.equal(values[0], null);
  t.equal(tops[0], null);
  t.ok(values.slice(1).every((value) => value! <= 0));
  t.ok(values.every((value, at) => at === 0 || tops[at]![texts[at]!] === value), 'the token is among the likeliest told');
  for (const [at, text] of texts.entries()) if (!text.startsWith('bytes:')) t.equal(Array.from(one!.text).slice(offsets[at]).join('').startsWith(text), true, `${at}: ${text}`);
  // No generation, tokens instead of text, a list of prompts, and the same as a stream.
  const [none] = await legacy({ prompt, max_tokens: 0, echo: true, logprobs: 2 });
  t.strictSame({ ...none, finish: '' }, { text: prompt, index: 0, finish: '', logprobs: Object.fromEntries(Object.entries(one!.logprobs).map(([key, list]) => [key, (list as unknown[]).slice(0, -1)])) });
  const [byTokens, second] = await legacy({ prompt: [tokens, tokens.slice(0, 1)], max_tokens: 0, echo: true, logprobs: 2 });
  t.strictSame(byTokens!.logprobs, none!.logprobs);
  t.match(second!.logprobs, { token_logprobs: [null] });
  const chunks = await stream(url, { prompt, max_tokens: 1, echo: true, logprobs: 2 }, '/v1/completions');
  const parts = chunks.flatMap(({ choices }) => (choices[0]?.logprobs ? [choices[0].logprobs as unknown as Legacy] : []));
  t.strictSame(parts.flatMap(({ token_logprobs: list }) => list), values);
  t.strictSame(parts.flatMap(({ text_offset: list }) => list), offsets);
  t.equal(chunks.map(({ choices }) => choices[0]?.text ?? '').join(''), one!.text);
  // The prompt is evaluated again each time: a cached prefix has no logits.
  t.strictSame((await legacy({ prompt, max_tokens: 1, echo: true, logprobs: 2 }))[0], one);
  const several = await legacy({ prompt: tokens, max_tokens: 2, echo: true, logprobs: 1, n: 3, temperature: 1, seed: 1, ignore_eos: true });
  t.ok(several.every(({ logprobs, text }) => logprobs.tokens.length === tokens.length + 2 && text.startsWith('The')));
  // After sampling: probabilities, of the prompt's tokens those before it.
  const [after] = await legacy({ prompt, max_tokens: 1, echo: true, logprobs: 2, post_sampling_probs: true });
  t.strictSame(after!.logprobs.tokens, texts);
  t.strictSame([after!.logprobs.token_logprobs[0], after!.logprobs.token_logprobs.at(-1)], [null, 1]);
  t.ok(after!.logprobs.token_logprobs.slice(1, -1).every((value, at) => Math.abs(value! - Math.exp(values[at + 1]!)) < 1e-4));
});

t.test('offsets in a prompt count the control tokens that its text spells', async (t) => {
  const { url, engine } = await startRealApp(t);
  const text = '<|im_start|>user\nHi there!<|im_end|>\n<|im_start|>assistant\n';
  for (const prompt of [text, Array.from(await engine.tokenize(text, true, true))]) {
    const { choices: [choice] } = await ask(url, { prompt, max_tokens: 2, temperature: 0, echo: true, logprobs: 1 }, '/v1/completions');
    const { text_offset: offsets, tokens, top_logprobs: tops, token_logprobs: values } = choice!.logprobs as unknown as Legacy;
    for (const [at, token] of tokens.entries()) t.equal(Array.from(choice!.text!).slice(offsets[at]).join('').startsWith(token), true, `${at}: ${token}`);
    t.ok(values.every((value, at) => at === 0 || tops[at]![tokens[at]!] === value));
    t.equal(tokens.includes('<|im_start|>'), prompt === text, 'the text of tokens has no control tokens');
    t.equal(tokens.join(''), choice!.text);
  }
});

t.test('a long prompt is reported in parts beside other requests', async (t) => {
  const { url } = await startRealApp(t);
  const prompt = 'one two three four five six seven. '.repeat(40);
  const single = await ask(url, { prompt, max_tokens: 0, echo: true, logprobs: 1 }, '/v1/completions');
  const others = Promise.all(Array.from({ length: 3 }, (_, at) => ask(url, { messages: [{ role: 'user', content: `Count to ${at + 20}` }], max_tokens: 60 })));
  const beside = await ask(url, { prompt, max_tokens: 0, echo: true, logprobs: 1 }, '/v1/completions');
  await others;
  const [a, b] = [single, beside].map(({ choices }) => (choices[0]!.logprobs as unknown as Legacy).token_logprobs);
  t.equal(a!.length, b!.length);
  t.ok(a!.length > 200);
  t.ok(a!.every((value, at) => value === null || Math.abs(value - b![at]!) < 0.05));
  t.equal(single.usage.completion_tokens, 0);
});

t.test('echo without log probabilities gives the text of tokens, too; best_of reports the likeliest', async (t) => {
  const { url, engine } = await startRealApp(t);
  const tokens = Array.from(await engine.tokenize('Once upon', false, false));
  const complete = async (body: object) => (await ask(url, body, '/v1/completions'));
  t.match((await complete({ prompt: tokens, echo: true, max_tokens: 0 })).choices, [{ text: 'Once upon', finish_reason: 'length', logprobs: null }]);
  t.match((await complete({ prompt: 'Once upon', echo: true, max_tokens: 0 })).choices, [{ text: 'Once upon' }]);
  t.match((await complete({ prompt: 'Once upon', max_tokens: 0 })).choices, [{ text: '', finish_reason: 'length' }]);
  const all = await complete({ prompt: 'Once upon', n: 5, seed: 1, temperature: 2, max_tokens: 5, logprobs: 0 });
  const mean = (choice: Choice): number =>
    (choice.logprobs as unknown as Legacy).token_logprobs.reduce<number>((sum, value) => sum + value!, 0) /
    (choice.logprobs as unknown as Legacy).tokens.length;
  const best = [...all.choices].sort((a, b) => mean(b) - mean(a));
  const chosen = await complete({ prompt: 'Once upon', n: 2, best_of: 5, seed: 1, temperature: 2, max_tokens: 5 });
  t.strictSame(
    chosen.choices.map(({ text, index, logprobs }) => ({ text, index, logprobs })),
    best.slice(0, 2).map(({ text }, index) => ({ text, index, logprobs: null })),
  );
  t.equal(chosen.usage.completion_tokens, all.usage.completion_tokens, 'all of them were generated');
});

t.test('responses report the tokens of the message', async (t) => {
  const { url } = await startRealApp(t);
  const body = { input: 'Tell me a story', max_output_tokens: 12, include: ['message.output_text.logprobs'], top_logprobs: 2, temperature: 0 };
  const whole = await (await post(`${url}/v1/responses`, body)).json() as { top_logprobs: number; output: { content: { text: string; logprobs: Told[] }[] }[] };
  const [part] = whole.output[0]!.content;
  t.equal(textOf(part!.logprobs), part!.text);
  t.ok(part!.logprobs.every(({ top_logprobs: top }) => top.length === 2));
  t.equal(whole.top_logprobs, 2);
  const parts = events(await (await post(`${url}/v1/responses`, { ...body, stream: true })).text()).map((text) => JSON.parse(text.replace(/^event: .*\ndata: /, '')) as { type: string; logprobs: Told[] });
  t.strictSame(parts.filter(({ type }) => type === 'response.output_text.delta').flatMap(({ logprobs }) => logprobs), part!.logprobs);
  t.strictSame(parts.find(({ type }) => type === 'response.output_text.done')!.logprobs, part!.logprobs);
});

t.test('a stream reports the progress of the prompt and times on request', async (t) => {
  const { url } = await startRealApp(t);
  const prompt = 'word and word. '.repeat(120);
  const chunks = await stream(url, { messages: [{ role: 'user', content: prompt }], max_tokens: 4, return_progress: true, timings_per_token: true });
  const progress = chunks.flatMap(({ prompt_progress: one }) => (one ? [one] : []));
  t.ok(progress.length > 0);
  t.ok(progress.every(({ processed, total }, at) => processed <= total && processed >= (progress[at - 1]?.processed ?? 0)));
  t.equal(progress.at(-1)!.processed, progress.at(-1)!.total);
  t.ok(chunks.filter(({ choices }) => choices[0]?.delta?.content).every(({ timings }) => timings !== undefined));
  t.notOk(
    (await stream(url, { messages, max_tokens: 4 })).some(
      (chunk) => chunk.prompt_progress !== undefined || (chunk.choices[0]?.delta?.content && chunk.timings),
    ),
  );
});

t.test('a prediction gives the same answer, and its outcome is counted', async (t) => {
  const { url } = await startRealApp(t);
  const plain = await ask(url, { messages, max_tokens: 80 });
  const text = plain.choices[0]!.message!.content!;
  for (const content of [text, [{ type: 'text', text }], 'something else entirely']) {
    const predicted = await ask(url, { messages, max_tokens: 80, prediction: { type: 'content', content } });
    t.equal(predicted.choices[0]!.message!.content, text);
    t.match(predicted.usage.completion_tokens_details, { accepted_prediction_tokens: Number, rejected_prediction_tokens: Number });
  }
  t.equal(plain.usage.completion_tokens_details, undefined);
});

async function textsOf(url: string, body: object): Promise<string> {
  const { choices } = await ask(url, { messages, max_tokens: 12, ...body });
  return choices[0]!.message!.content!;
}

t.test('very many log probabilities come in parts, the same as in a stream', async (t) => {
  const { url } = await startRealApp(t);
  const shared = { temperature: 0, seed: 1, max_tokens: 150, ignore_eos: true };
  const chat = { ...shared, messages, logprobs: true, top_logprobs: 20 };
  const reply = await post(`${url}/v1/chat/completions`, chat);
  t.ok(Number(reply.headers.get('content-length')) > 100_000, 'so that a reply that breaks off is noticed');
  t.match(reply.headers.get('content-type'), /^application\/json/);
  const whole = (await reply.json() as { choices: Choice[] }).choices[0]!.logprobs!.content;
  t.equal(whole.length, 150);
  t.strictSame(whole, (await stream(url, chat)).flatMap(({ choices }) => choices[0]?.logprobs?.content ?? []));

  // A prompt of several pieces, whose log probabilities come in several chunks of a stream.
  const prompt = 'Once upon a time there was a llama. '.repeat(20);
  const completion = { ...shared, prompt, echo: true, logprobs: 3 };
  const [one] = (await ask(url, completion, '/v1/completions')).choices as unknown as { text: string; logprobs: Legacy }[];
  const chunks = (await stream(url, completion, '/v1/completions')).flatMap(({ choices }) => choices as unknown as { text: string; logprobs: Legacy | null }[]);
  t.equal(chunks.map(({ text }) => text).join(''), one!.text);
  t.ok(chunks.every(({ logprobs }) => (logprobs?.tokens.length ?? 0) <= 64));
  for (const list of ['tokens', 'token_logprobs', 'top_logprobs', 'text_offset'] as const) {
    t.strictSame(chunks.flatMap(({ logprobs }) => (logprobs?.[list] ?? []) as unknown[]), one!.logprobs[list]);
  }
});

t.test('sampling fields take effect', async (t) => {
  const { url } = await startRealApp(t);
  const plain = await textsOf(url, {});
  const [first] = plain.split(' ');
  t.equal(await textsOf(url, { samplers: ['top_k'], top_k: 1, temperature: 3 }), plain);
  t.equal(await textsOf(url, { samplers: 'k', top_k: 1, temperature: 3 }), plain);
  t.not(await textsOf(url, { logit_bias: [[first, false]] }), plain);
  t.not(await textsOf(url, { logit_bias: { [first!]: -100 } }), plain);
  const short = await ask(url, { messages: [{ role: 'user', content: 'What is 8 + 5?' }], max_tokens: 200 });
  const longer = await ask(url, { messages: [{ role: 'user', content: 'What is 8 + 5?' }], max_tokens: 200, min_tokens: short.usage.completion_tokens + 5 });
  t.ok(longer.usage.completion_tokens > short.usage.completion_tokens + 4);
});

t.test('hostile requests for probabilities get an answer or a 400, and cancelled streams leave nothing behind', async (t) => {
  const { url, engine } = await startRealApp(t);
  const bodies = [
    { logprobs: true, top_logprobs: -1 }, { logprobs: true, top_logprobs: 1e9 }, { logprobs: 'true' }, { logprobs: [true] }, { n_probs: -5 }, { n_probs: 1.5 }, { n_probs: '@1e309@' },
    { samplers: Array.from({ length: 100_000 }, () => 'top_k') }, { samplers: [['top_k']] }, { samplers: 'k'.repeat(5_000) }, { samplers: { 0: 'top_k' } },
    { logit_bias: Array.from({ length: 100_000 }, () => ['a', 1]) }, { logit_bias: [['x'.repeat(5_000), 1]] }, { logit_bias: [[null, 1]] }, { logit_bias: [[2 ** 31, 1]] }, { logit_bias: { '-1': null } },
    { prediction: 5 }, { prediction: [] }, { prediction: { type: 'content', content: [null] } }, { prediction: { type: 'content', content: {} } },
    { logprobs: true, top_logprobs: 20, n: 128, max_tokens: 1_000 }, { n_probs: 100, n: 100, max_tokens: 2_048 },
    { dynatemp_range: 1e300 }, { dynatemp_exponent: '1' }, { min_keep: 2 ** 40 }, { min_tokens: -1 }, { adaptive_decay: 1 }, { dry_multiplier: 1, dry_sequence_breakers: [5] },
  ];
  for (const body of bodies) {
    const response = await post(`${url}/v1/chat/completions`, JSON.stringify({ messages, max_tokens: 2, ...body }).replace('"@1e309@"', '1e309'));
    t.equal(response.status, 400, JSON.stringify(body).slice(0, 80));
    await response.text();
  }
  for (const body of [
    { prediction: { type: 'content', content: 'x '.repeat(50_000) } },
    { min_tokens: 2 ** 31 - 1 },
    { min_keep: 2 ** 31 - 1 },
    { dynatemp_range: 100, dynatemp_exponent: -100 },
    { samplers: ['temperature'], temperature: 0 },
    { samplers: ['adaptive_p'], adaptive_target: 1 },
    { samplers: ['top_k', 'infill'], top_k: 40 },
    { logit_bias: [] },
    { samplers: ['typ_p', 'xtc'], xtc_probability: 1, xtc_threshold: 0, typical_p: 0 },
    { post_sampling_probs: true, n_probs: 100, mirostat: 2 },
    { post_sampling_probs: true, n_probs: 5, mirostat: 1 },
    { top_logprobs: 20, logprobs: true, n: 8 },
  ]) {
    const response = await post(`${url}/v1/chat/completions`, { messages, max_tokens: 3, ...body });
    t.equal(response.status, 200, JSON.stringify(body).slice(0, 80));
    await response.text();
  }
  for (let round = 0; round < 4; round++) {
    const controller = new AbortController();
    const response = await post(`${url}/v1/chat/completions`, { messages, stream: true, logprobs: true, top_logprobs: 20, max_tokens: 1_000, ignore_eos: true, n: 2, return_progress: true }, {}, controller.signal);
    await response.body!.getReader().read();
    controller.abort();
    const scored = new AbortController();
    const asking = post(`${url}/v1/completions`, { prompt: 'one two three '.repeat(300), echo: true, logprobs: 5, max_tokens: 0 }, {}, scored.signal);
    setImmediate(() => scored.abort());
    await asking.catch(() => undefined);
  }
  t.equal((await ask(url, { messages, max_tokens: 2, logprobs: true })).choices[0]!.logprobs!.content.length, 2);
  for (let tries = 0; engine.state.state === 'ready' && engine.state.status.running + engine.state.status.waiting > 0 && tries < 500; tries++) await new Promise((resolve) => setTimeout(resolve, 10));
  t.match(engine.state, { state: 'ready', status: { running: 0, waiting: 0 } });
});
