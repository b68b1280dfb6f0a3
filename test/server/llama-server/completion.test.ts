// llama-server's own completions and information routes, over the built-in model.
import t from 'tap';
import { events, post, startApp, until } from '../app-under-test.js';
import { FakeEngine } from '../fake-engine.js';
import { startRealApp } from '../real-engine.js';

const json = async (response: Response): Promise<unknown> => JSON.parse(await response.text());

t.test('a completion has the format of llama-server, whole and streamed', async (t) => {
  const { url, engine } = await startRealApp(t);
  const ask = async (body: object) => await json(await post(`${url}/completion`, { temperature: 0, ...body })) as Record<string, unknown>;
  const prompt = 'Once upon a time';
  const whole = await ask({ prompt, n_predict: 12, n_probs: 2, return_tokens: true, seed: 7 });
  t.match(whole, {
    index: 0, content: String, id_slot: -1, stop: true, model: 'owner/model', tokens_predicted: 12, tokens_evaluated: Number, prompt, has_new_line: Boolean, truncated: false,
    stop_type: 'limit', stopping_word: '', tokens_cached: Number, timings: { predicted_n: 12 },
    generation_settings: { seed: 7, temperature: 0, n_predict: 12, n_probs: 2, samplers: ['penalties', 'dry', 'top_n_sigma', 'top_k', 'typ_p', 'top_p', 'min_p', 'xtc', 'temperature'] },
  });
  const tokens = whole['tokens'] as number[];
  t.equal(tokens.length, 12);
  t.equal(await engine.detokenize(Int32Array.from(tokens), false), whole['content']);
  t.same((whole['completion_probabilities'] as { id: number }[]).map(({ id }) => id), tokens);
  const chunks = events(await (await post(`${url}/completion`, { prompt, temperature: 0, n_predict: 12, n_probs: 2, stream: true, timings_per_token: true })).text()).map((text) => JSON.parse(text) as Record<string, unknown>);
  const last = chunks.pop()!;
  t.match(last, { stop: true, content: '', tokens: [], stop_type: 'limit', tokens_predicted: 12, prompt });
  t.ok(chunks.every(({ stop, tokens_evaluated: evaluated, timings }) => stop === false && evaluated === whole['tokens_evaluated'] && timings !== undefined));
  t.equal(chunks.map(({ content }) => content as string).join(''), whole['content']);
  t.same(chunks.flatMap(({ tokens: some }) => some as number[]), tokens);
  t.same(chunks.flatMap(({ completion_probabilities: some }) => some as object[]), whole['completion_probabilities']);
  t.equal(chunks.at(-1)!['tokens_predicted'], 12);
});

t.test('stop strings, fields, several prompts and tokens work', async (t) => {
  const { url, engine } = await startRealApp(t);
  const ask = async (body: object) => await json(await post(`${url}/completion`, { temperature: 0, n_predict: 8, ...body }));
  const whole = await ask({ prompt: 'Once upon a time' }) as { content: string };
  const word = whole.content.trim().split(' ')[1]!;
  t.match(await ask({ prompt: 'Once upon a time', stop: [word] }), { stop_type: 'word', stopping_word: word });
  t.same(await ask({ prompt: 'Once upon a time', response_fields: ['content', 'generation_settings/n_predict', 'nonsense/x', '__proto__', 'timings/constructor'] }), { content: whole.content, n_predict: 8 });
  const tokens = Array.from(await engine.tokenize('Once upon a time', true, true));
  t.match(await ask({ prompt: tokens }), { content: whole.content, prompt: 'Once upon a time' });
  t.match(await ask({ prompt: { prompt_string: 'Once upon a time' } }), { content: whole.content });
  t.match(await ask({ prompt: ['Once upon a time', tokens], n: 2 }), [0, 1, 2, 3].map((index) => ({ index, content: whole.content })));
  t.match(await ask({ prompt: 'Once upon a time', n_predict: 0 }), { content: '', tokens_predicted: 0, stop_type: 'limit' });
  t.match(await ask({ prompt: 'Once upon a time', json_schema: { const: 'x' } }), { content: '"x"', stop_type: 'eos' });
  for (const [body, param] of [[{}, 'prompt'], [{ prompt: [1, 'x'] }, 'prompt'], [{ prompt: { prompt_string: 'x', multimodal_data: ['y'] } }, 'prompt.multimodal_data'], [{ prompt: 'x', n_indent: 2 }, 'n_indent'], [{ prompt: 'x', lora: [{ id: 0, scale: 1 }] }, 'lora'], [{ prompt: 'x', response_fields: 'content' }, 'response_fields']] as const) {
    const response = await post(`${url}/completion`, body);
    t.equal(response.status, 400);
    t.match(await json(response), { error: { param } });
  }
});

t.test('models that can fill a gap in code do, and others say that they cannot', async (t) => {
  const { url } = await startRealApp(t);
  for (const [path, body] of [['/infill', { input_prefix: 'a', input_suffix: 'b' }], ['/v1/completions', { prompt: 'a', suffix: 'b' }]] as const) {
    const response = await post(url + path, body);
    t.equal(response.status, 400, path);
    t.match(await json(response), { error: { code: 'infill_unsupported', message: /no tokens for a prefix/ } });
  }
  for (const [body, param] of [[{ input_suffix: 'b' }, 'input_prefix'], [{ input_prefix: 'a', input_suffix: 'b', input_extra: [{}] }, 'input_extra[0].text'], [{ input_prefix: 'a', input_suffix: 'b', input_extra: 5 }, 'input_extra']] as const) {
    t.match(await json(await post(`${url}/infill`, body)), { error: { param } });
  }
});

t.test('props and slots describe the model, and unsupported actions are a 501', async (t) => {
  const { url, engine } = await startRealApp(t);
  t.match(await json(await fetch(`${url}/props`)), {
    default_generation_settings: { n_ctx: 2048, params: { temperature: 0.7, top_k: 40, n_predict: 2048 } }, total_slots: 4, model_alias: 'owner/model', chat_template: /\S/,
    bos_token: String, eos_token: /\S/, build_info: /^llama\.cpp-/, modalities: { vision: false },
  });
  t.match(await json(await fetch(`${url}/slots`)), [0, 1, 2, 3].map((id) => ({ id, n_ctx: 2048, is_processing: false })));
  t.equal((await fetch(`${url}/props?model=nothing`)).status, 404);
  const controllers = Array.from({ length: 4 }, () => new AbortController());
  const streams = await Promise.all(controllers.map(({ signal }) => post(`${url}/completion`, { prompt: 'x', stream: true, ignore_eos: true, n_predict: 100_000 }, {}, signal)));
  await Promise.all(streams.map((stream) => stream.body!.getReader().read()));
  t.match(await json(await fetch(`${url}/slots`)), [0, 1, 2, 3].map((id) => ({ id, is_processing: true })));
  t.equal((await fetch(`${url}/slots?fail_on_no_slot=1`)).status, 429);
  for (const controller of controllers) controller.abort();
  await until(() => engine.state.state === 'ready' && engine.state.status.running === 0);
  for (const [path, body] of [['/slots/0?action=save', { filename: 'x' }], ['/props', {}]] as const) {
    const response = await post(url + path, body);
    t.equal(response.status, 501, path);
    t.equal(response.headers.get('x-should-retry'), 'false');
    t.match(await json(response), { error: { code: 'not_implemented' } });
  }
});

t.test('a route that this server does not have is no warning in its log', async (t) => {
  const { url, logged } = await startApp(t);
  t.equal((await post(`${url}/props`, {})).status, 501);
  t.strictSame(logged.filter((text) => text.startsWith('warn')), []);
});

t.test('props wait for no model', async (t) => {
  const engine = new FakeEngine();
  engine.state = { state: 'loading', fraction: 0.5 };
  const { url } = await startApp(t, {}, engine);
  t.match(await json(await fetch(`${url}/props`)), { error: { code: 'model_loading' } });
});

t.test('a request asks for a bounded number of answers, which repeat a bounded text', async (t) => {
  const { url } = await startRealApp(t);
  const prompts = Array.from({ length: 128 }, () => 'x');
  const param = 'n';
  for (const path of ['/completion', '/v1/completions']) {
    const refused = await post(url + path, { prompt: prompts, n: 9, max_tokens: 1 });
    t.match([refused.status, await json(refused)], [400, { error: { code: 'invalid_value', param, message: /at most 1024 answers, got a request for 9 for each of 128 prompts/ } }], path);
  }
  const grammar = `root ::= "a" # ${'x'.repeat(1_000_000)}`;
  const asked = { prompt: 'x', grammar, n_predict: 1, n: 40 };
  const refused = await post(`${url}/completion`, asked);
  t.match([refused.status, await json(refused)], [400, { error: { code: 'invalid_value', param, message: /"response_fields": \["content"\]/ } }]);
  const warnings: string[] = [];
  const note = (warning: Error): void => void warnings.push(warning.message);
  process.on('warning', note);
  t.equal((await post(`${url}/completion`, { ...asked, response_fields: ['content'] })).status, 200);
  process.off('warning', note);
  t.strictSame(warnings, [], 'of too many listeners');
  t.equal((await post(`${url}/completion`, { ...asked, response_fields: ['content'], stream: true })).status, 400, 'a stream repeats them all the same');
  t.equal((await post(`${url}/completion`, { ...asked, n: 2 })).status, 200);
});
