import t, { type Test } from 'tap';
import { marks, pieceBytes, stashBytesPerToken, tokens } from '../fake-addon.js';
import { chat, completion, openEngine, random, sampling, say, turn, type Outcome } from '../requests.js';

type Open = Awaited<ReturnType<typeof openEngine>>;

/** No breach of the contract, and nothing left open. */
async function closeClean(t: Test, { engine, addon }: Open) {
  await engine.close();
  t.strictSame(addon.violations, []);
  t.match(addon.stats, { openSamplers: 0, openParsers: 0, openContexts: 0, openModels: 0 });
}

t.test('an answer takes the time of its steps, even if many are told at once', async (t) => {
  const open = await openEngine({ stepMs: 3, decodeMs: 3, mostUntold: 1_000_000 });
  // Of a prompt of one token, all steps follow each other.
  const { end } = await open.complete(completion(Int32Array.of(104), { constraint: say('x'.repeat(40)), maxTokens: 40 })).done;
  await open.engine.close();
  t.equal(end.kind, 'done');
  if (end.kind === 'done') t.ok(end.timings.generateMs > 60, `${end.timings.generateMs} ms for about 40 steps of 3`);
});

t.test('one completion ends with its usage, timings and seed', async (t) => {
  const open = await openEngine();
  const { end, content, accepted } = await open.complete(completion('hello', { constraint: say('good day') })).done;
  t.ok(accepted);
  t.equal(content, 'good day');
  t.match(end, { kind: 'done', finishReason: 'stop', usage: { promptTokens: 6, cachedTokens: 0, completionTokens: 9 }, seed: 42 });
  if (end.kind === 'done') for (const ms of Object.values(end.timings)) t.ok(ms >= 0);
  await closeClean(t, open);
});

t.test('a request that cannot even begin fails, and no other', async (t) => {
  const open = await openEngine();
  const bad = open.complete({ ...completion('x'), prompt: null as never });
  t.match((await bad.done).end, { kind: 'error', error: { code: 'internal_error' } });
  t.equal((await open.complete(completion('hello', { constraint: say('good day') })).done).content, 'good day');
  await closeClean(t, open);
});

t.test('maxTokens and the context end an answer with length', async (t) => {
  const open = await openEngine({}, { contextSize: 20 });
  const few = await open.complete(completion('~', { maxTokens: 3 })).done;
  t.match(few.end, { finishReason: 'length', usage: { completionTokens: 3 } });
  const full = await open.complete(completion('~', { maxTokens: 1000 })).done;
  t.match(full.end, { finishReason: 'length', usage: { promptTokens: 2, completionTokens: 18 } });
  await closeClean(t, open);
});

t.test('a token that takes its grammar long is decided beside the steps, and other answers continue', async (t) => {
  for (const fake of [{}, { mostTokens: 4 }]) {
    const open = await openEngine(fake, fake.mostTokens ? { specType: 'ngram-simple' } : {});
    const slow = (text: string) => open.complete(completion(text, { constraint: { kind: 'grammar', grammar: `slow:${text} and on` } })).done;
    const outcomes = await Promise.all([slow('one'), slow('two'), open.complete(completion('x', { constraint: say('good day') })).done, slow('three')]);
    t.strictSame(outcomes.map(({ content }) => content), ['one and on', 'two and on', 'good day', 'three and on']);
    t.ok(open.addon.stats.decided >= 9, `${open.addon.stats.decided} tokens were decided so`);
    const alone = open.complete(completion('y', { constraint: { kind: 'grammar', grammar: 'slow:abc' }, maxTokens: 2 }));
    t.equal((await alone.done).content, 'ab', 'the last token may be such a one');
    const left = open.complete(completion('z', { constraint: { kind: 'grammar', grammar: 'slow:abcdef' } }));
    while (open.addon.stats.steps < 1) await turn();
    open.engine.cancel(left.id);
    t.match((await left.done).end, { error: { code: 'cancelled' } });
    await closeClean(t, open);
  }
});

t.test('a prompt that fills the context is refused before it is accepted', async (t) => {
  const open = await openEngine({}, { contextSize: 8 });
  for (const [start, param] of [['chat', 'messages'], ['complete', 'prompt']] as const) {
    const outcome = await (start === 'chat' ? open.chat(chat('1234567')) : open.complete(completion('1234567'))).done;
    t.notOk(outcome.accepted);
    t.match(outcome.end, { kind: 'error', error: { code: 'context_length_exceeded', param, details: { n_ctx: 8 } } });
  }
  const fits = await open.complete(completion('123456', { maxTokens: 5 })).done;
  t.match(fits.end, { kind: 'done', finishReason: 'length', usage: { promptTokens: 7, completionTokens: 1 } });
  await closeClean(t, open);
});

t.test('only a context below the largest one can be raised', async (t) => {
  for (const [contextTrain, advice] of [[9, /which is the context, got 9; shorten it or raise the context size/], [8, /which is the model's largest context, got 9; shorten it\.$/]] as const) {
    const open = await openEngine({ contextTrain }, { contextSize: 8 });
    t.match((await open.complete(completion('12345678')).done).end, { kind: 'error', error: { code: 'context_length_exceeded', message: advice } });
    await closeClean(t, open);
  }
});

t.test('a stop string ends the answer and is not part of it', async (t) => {
  const open = await openEngine();
  const { end, content } = await open.complete(completion('x', { constraint: say('one END two'), stop: ['END', 'ENTER'] })).done;
  t.equal(content, 'one ');
  t.match(end, { finishReason: 'stop', usage: { completionTokens: 7 } });
  await closeClean(t, open);
});

t.test('characters split across tokens are whole in the deltas, and one cut by maxTokens is dropped', async (t) => {
  const open = await openEngine();
  const whole = await open.complete(completion('x', { constraint: say('aé😀z') })).done;
  t.equal(whole.content, 'aé😀z');
  const cut = await open.complete(completion('x', { constraint: say('a😀'), maxTokens: 3 })).done;
  t.equal(cut.content, 'a');
  await closeClean(t, open);
});

t.test('tool calls arrive as deltas and end with tool_calls', async (t) => {
  const open = await openEngine();
  const tools = JSON.stringify([{ type: 'function', function: { name: 'add' } }]);
  const { end, content, calls } = await open.chat(chat('x', { tools, constraint: say('so <tool>add:{"a":1};') })).done;
  t.match(end, { finishReason: 'tool_calls' });
  t.equal(content, 'so ');
  t.strictSame(calls, [{ name: 'add', arguments: '{"a":1}' }]);
  await closeClean(t, open);
});

t.test('an answer that does not parse is given as content, with a warning', async (t) => {
  const open = await openEngine();
  const tools = JSON.stringify([{ type: 'function', function: { name: 'add' } }]);
  const { end, content } = await open.chat(chat('x', { tools, constraint: say('so <tool>add') })).done;
  t.match(end, { kind: 'done', finishReason: 'stop', warnings: [/no end/] });
  t.equal(content, 'so <tool>add');
  await closeClean(t, open);
});

t.test('early errors have their codes and take no slot', async (t) => {
  const open = await openEngine();
  const cases: [Promise<Outcome>, string][] = [
    [open.complete(completion('x', { constraint: { kind: 'grammar', grammar: 'bad' } })).done, 'invalid_grammar'],
    [open.chat(chat('x', { messages: JSON.stringify([{ role: 'tool', content: 'x' }]) })).done, 'invalid_messages'],
    [open.complete(completion(Int32Array.of(1, 9999))).done, 'invalid_value'],
    [open.complete(completion(Int32Array.of())).done, 'invalid_value'],
    [open.complete(completion('x', { sampling: { ...sampling, logitBias: [{ token: -1, bias: 1 }] } })).done, 'invalid_value'],
  ];
  for (const [done, code] of cases) {
    const { end, accepted } = await done;
    t.match(end, { kind: 'error', error: { code } });
    t.notOk(accepted);
  }
  t.match(open.status(), { running: 0, waiting: 0 });
  await closeClean(t, open);
});

t.test('requests over the queue limit are refused at once', async (t) => {
  const open = await openEngine({}, { parallel: 1, queueSize: 2 });
  const all = Array.from({ length: 5 }, () => open.complete(completion('~', { maxTokens: 5 })).done);
  const ends = (await Promise.all(all)).map(({ end }) => (end.kind === 'error' ? end.error.code : end.kind));
  t.strictSame(ends, ['done', 'done', 'done', 'queue_full', 'queue_full']);
  await closeClean(t, open);
});

t.test('idle work takes no place in the queue from other requests', async (t) => {
  const open = await openEngine({}, { parallel: 1, queueSize: 0 });
  const asker = (client: string, priority: number) => ({ client, priority });
  const idle = open.complete(completion('~', { maxTokens: 400, asker: asker('batch', -1) }));
  const refused = await open.complete(completion('~', { maxTokens: 2, asker: asker('batch', -1) })).done;
  t.match(refused.end, { kind: 'error', error: { code: 'queue_full' } });
  const person = open.complete(completion('~', { maxTokens: 2, asker: asker('ann', 0) }));
  open.engine.cancel(idle.id);
  t.match((await person.done).end, { kind: 'done' });
  t.match((await idle.done).end, { kind: 'error', error: { code: 'cancelled' } });
  await closeClean(t, open);
});

t.test('a cancel stops work in preparation, queue, prefill and decode', async (t) => {
  const open = await openEngine({}, { parallel: 1 });
  const long = completion(`~${'y'.repeat(1500)}`, { maxTokens: 400 });
  const first = open.complete(long);
  const early = open.complete(long);
  open.engine.cancel(early.id);
  t.match((await early.done).end, { error: { code: 'cancelled' } });
  while (!open.outcomes.get(first.id)!.accepted) await turn();
  await turn();
  const prefillSteps = open.addon.stats.steps;
  open.engine.cancel(first.id);
  t.match((await first.done).end, { error: { code: 'cancelled' } });
  const second = open.complete(completion('~decode', { maxTokens: 400 }));
  const queued = open.complete(long);
  while (open.outcomes.get(second.id)!.deltas < 3) await turn();
  open.engine.cancel(queued.id);
  open.engine.cancel(second.id);
  t.match((await queued.done).end, { error: { code: 'cancelled' } });
  t.match((await second.done).end, { error: { code: 'cancelled' } });
  const after = await open.complete(completion('x', { constraint: say('ok') })).done;
  t.equal(after.content, 'ok');
  t.ok(open.addon.stats.steps < prefillSteps + 30, `${open.addon.stats.steps} steps`);
  await closeClean(t, open);
});

t.test('a failed step fails the requests in it, and the next request is served', async (t) => {
  const open = await openEngine();
  const begun = open.complete(completion('~', { maxTokens: 400 }));
  while (open.outcomes.get(begun.id)!.deltas < 3) await turn();
  const bad = await open.complete(completion(`a${marks.failStep}`)).done;
  t.match(bad.end, { error: { code: 'generation_failed' } });
  t.match((await begun.done).end, { error: { code: 'generation_failed' } });
  t.equal((await open.complete(completion('x', { constraint: say('ok') })).done).content, 'ok');
  await closeClean(t, open);
});

t.test('before the error of a failed step comes text that a stop string held back', async (t) => {
  const open = await openEngine();
  const text = 'word '.repeat(200);
  const begun = open.complete(completion('x', { constraint: say(text), maxTokens: 1500, stop: [`${text}!`] }));
  while (open.engine.status.tokens < 20) await turn();
  t.match((await open.complete(completion(`a${marks.failStep}`)).done).end, { error: { code: 'generation_failed' } });
  const { content, end } = await begun.done;
  t.match(end, { error: { code: 'generation_failed' } });
  t.ok(content.length >= 20 && text.startsWith(content), content);
  await closeClean(t, open);
});

t.test('a failed sampler ends only its own request', async (t) => {
  const open = await openEngine();
  const other = open.complete(completion('x', { constraint: say('untouched text') }));
  const bad = open.complete(completion('x', { constraint: { kind: 'grammar', grammar: 'fail:2' } }));
  t.match((await bad.done).end, { error: { code: 'generation_failed', message: /no way on/ } });
  t.equal((await other.done).content, 'untouched text');
  await closeClean(t, open);
});

t.test('a long prompt is fed in chunks beside a running stream', async (t) => {
  const open = await openEngine({}, { batchSize: 2048, contextSize: 4096 });
  const stream = open.complete(completion('~', { maxTokens: 40 }));
  while (open.outcomes.get(stream.id)!.deltas < 3) await turn();
  const steps = open.addon.stats.steps;
  const long = open.complete(completion('y'.repeat(2000), { maxTokens: 1 }));
  await long.done;
  t.ok(open.addon.stats.largestStep <= 257, `${open.addon.stats.largestStep} rows`);
  t.ok(open.addon.stats.steps - steps >= 8);
  t.match((await stream.done).end, { kind: 'done' });
  await closeClean(t, open);
});

t.test('the second turn of a chat evaluates only its new tokens', async (t) => {
  const open = await openEngine();
  const first = await open.complete(completion('a'.repeat(100), { constraint: say('bcd') })).done;
  const second = await open.complete(completion(`${'a'.repeat(100)}${first.content}and more`, { constraint: say('x') })).done;
  t.match(second.end, { usage: { promptTokens: 112, cachedTokens: 104 } });
  await closeClean(t, open);
});

t.test('steps follow each other, and tokens beyond a late stop string are not kept', async (t) => {
  const open = await openEngine({ lateReports: true });
  const first = await open.complete(completion('q'.repeat(80), { constraint: say('one END and much more that nobody reads'), stop: ['END'] })).done;
  t.equal(first.content, 'one ');
  t.ok(open.addon.stats.followed > 2, `${open.addon.stats.followed} steps followed another`);
  const next = await open.complete(completion(`${'q'.repeat(80)}one END!`, { constraint: say('ok') })).done;
  t.match(next.end, { kind: 'done', usage: { cachedTokens: 88 } });
  await closeClean(t, open);
});

t.test('tokens of a step beyond a stop string are neither counted nor kept', async (t) => {
  const open = await openEngine({ mostTokens: 30 }, { specType: 'ngram-simple' });
  const first = await open.complete(completion('q'.repeat(80), { constraint: say('one END and much more that nobody reads'), stop: ['END'] })).done;
  t.equal(first.content, 'one ');
  t.match(first.end, { kind: 'done', finishReason: 'stop', usage: { completionTokens: 7, draftedTokens: Number, acceptedTokens: Number } });
  t.ok(open.addon.stats.guessed > 0);
  const next = await open.complete(completion(`${'q'.repeat(80)}one END!`, { constraint: say('ok') })).done;
  t.match(next.end, { kind: 'done', usage: { cachedTokens: 88 } });
  await closeClean(t, open);
});

t.test('tokens evaluated before a sampler failed stay known', async (t) => {
  const open = await openEngine({ mostTokens: 30 }, { specType: 'ngram-simple', parallel: 1 });
  let prompt = 'q'.repeat(60);
  for (const answer of ['abc', 'defg', 'hijklmn', 'opqrstuvw', 'x', 'yz', 'abcdefghijklmnop']) {
    const failed = await open.complete(completion(prompt, { constraint: { kind: 'grammar', grammar: `stuck:${answer}` } })).done;
    t.match(failed, { content: answer, end: { kind: 'error', error: { message: /no way on/ } } });
    // The next prompt continues after that. If the loop did not know of a cell, it would evaluate
    // it again, after itself.
    prompt += `${answer}!!`;
    const next = await open.complete(completion(prompt, { constraint: say('ok') })).done;
    t.match(next.end, { kind: 'done', finishReason: 'stop' });
  }
  await closeClean(t, open);
});

t.test('work on states blocks steps only if it says so, and close() waits for it', async (t) => {
  const open = await openEngine();
  let finishFile = () => {};
  const file = new Promise<void>((resolve) => (finishFile = resolve));
  const did: string[] = [];
  const kept = open.keep(async (_, __, betweenSteps) => {
    await betweenSteps(async () => { did.push('taken'); });
    await file;
    await betweenSteps(async () => { did.push('told'); });
    return { tokens: 1, sizeBytes: 1 };
  });
  t.match((await open.complete(completion('while a file is written', { constraint: say('ok') })).done).end, { kind: 'done' });
  t.same(did, ['taken']);
  const closed = open.engine.close();
  await turn();
  finishFile();
  t.match((await kept.done).end, { kind: 'result', value: { tokens: 1 } });
  await closed;
  t.same(did, ['taken', 'told']);
  await closeClean(t, open);
});

t.test('tokens from before a sampler failed in the same step are delivered', async (t) => {
  const open = await openEngine({ mostTokens: 30 }, { specType: 'ngram-simple' });
  const one = await openEngine();
  for (const seed of [1, 2, 3, 4, 5]) {
    const request = completion(`~${seed}`, { constraint: { kind: 'grammar', grammar: 'fail:6' }, sampling: { ...sampling, seed } });
    const [together, apart] = [await open.complete(request).done, await one.complete(request).done];
    t.equal(together.content, apart.content);
    t.match(together.end, { kind: 'error', error: { code: 'generation_failed', message: /no way on/ } });
  }
  t.ok(open.addon.stats.guessed > 5);
  await closeClean(t, open);
  await closeClean(t, one);
});

t.test('a chat with a salt is not remembered', async (t) => {
  const open = await openEngine();
  for (const [salt, remembered] of [['of-ann', 0], [undefined, 1]] as const) {
    const asker = { client: 'ann', priority: 0, ...(salt === undefined ? {} : { salt }) };
    t.match((await open.chat(chat('hello', { asker, maxTokens: 3 })).done).end, { kind: 'done' });
    t.equal(open.addon.remembered.length, remembered);
  }
  await open.engine.close();
});

t.test('more conversations than sequences can all be continued, as far as their memory goes', async (t) => {
  for (const [cacheRamMib, remembered] of [[2, 10], [0, 0]] as const) {
    const open = await openEngine({}, { parallel: 2, cacheRamMib });
    const ask = async (prompt: string) => await open.complete(completion(prompt, { constraint: say('ok') })).done;
    const talks = Array.from({ length: 10 }, (_, i) => String(i).repeat(100));
    for (const talk of talks) await ask(talk);
    const ends = [];
    for (const talk of talks) ends.push((await ask(`${talk}ok and on`)).end);
    t.equal(ends.filter((end) => end.kind === 'done' && end.usage.cachedTokens >= 100).length, remembered);
    t.equal(open.addon.stats.unstashed > 0, cacheRamMib > 0);
    await closeClean(t, open);
  }
});

t.test('the memory for conversations is not exceeded', async (t) => {
  const open = await openEngine({}, { parallel: 1, cacheRamMib: 1 });
  const ask = async (prompt: string) => await open.complete(completion(prompt, { constraint: say('ok') })).done;
  for (let i = 0; i < 30; i++) await ask(String.fromCharCode(65 + i).repeat(200));
  t.equal(open.addon.stats.stashed, 29);
  const { stashedTokens, mostStashedTokens } = open.addon.stats;
  t.ok(stashedTokens > 0 && mostStashedTokens <= 2 ** 20 / stashBytesPerToken, `${mostStashedTokens} tokens at once`);
  await closeClean(t, open);
});

t.test('a system prompt is evaluated once for requests that arrive together', async (t) => {
  const open = await openEngine({}, { contextSize: 4000, batchSize: 256 });
  const system = 's'.repeat(1000);
  const all = await Promise.all(Array.from({ length: 4 }, (_, i) => open.complete(completion(`${system}${i}`, { constraint: say('ok') })).done));
  const cached = all.map(({ end }) => (end.kind === 'done' ? end.usage.cachedTokens : -1)).sort((a, b) => a - b);
  t.strictSame(cached.slice(1).map((n) => n >= 1000), [true, true, true]);
  t.equal(cached[0], 0);
  await closeClean(t, open);
});

t.test('embeddings run in batches, in order, beside a chat, and can be cancelled', async (t) => {
  const open = await openEngine({ turns: [1, 3] });
  const stream = open.complete(completion('~', { maxTokens: 200 }));
  const inputs = Array.from({ length: 100 }, (_, i) => `input ${i}`);
  const { end } = await open.embed(inputs).done;
  t.match(end, { kind: 'embedded', dimensions: 4 });
  if (end.kind === 'embedded') {
    t.equal(end.vectors.length, 400);
    t.equal(end.tokenCounts[11], 9);
    const single = await open.embed(['input 11']).done;
    t.strictSame(single.end.kind === 'embedded' && [...single.end.vectors], [...end.vectors.slice(44, 48)]);
  }
  const long = await open.embed(['short', 'x'.repeat(5000)]).done;
  t.match(long.end, { error: { code: 'context_length_exceeded', param: 'input[1]', details: { index: 1, n_prompt_tokens: 5001, n_ctx: 2000 } } });
  t.match((await open.embed([Int32Array.of(-4)]).done).end, { error: { code: 'invalid_value' } });
  const calls = open.addon.stats.embedCalls;
  const cancelled = open.embed(Array.from({ length: 2048 }, () => Int32Array.of(1)));
  while (open.addon.stats.embedCalls < calls + 2) await turn();
  open.engine.cancel(cancelled.id);
  t.match((await cancelled.done).end, { error: { code: 'cancelled' } });
  t.match((await stream.done).end, { kind: 'done' });
  t.ok(open.addon.stats.embedCalls < calls + 5);
  await closeClean(t, open);
});

const vectorsOf = (end: Outcome['end']) => (end.kind === 'embedded' ? [...end.vectors] : end);

t.test('waiting embedding requests share a call, and each gets its own vectors', async (t) => {
  const open = await openEngine();
  const texts = Array.from({ length: 40 }, (_, i) => `text ${i}`);
  const alone = [];
  for (const text of texts) alone.push(vectorsOf((await open.embed([text]).done).end));
  const before = open.addon.stats.embedCalls;
  const together = await Promise.all(texts.map((text) => open.embed([text]).done));
  t.strictSame(together.map(({ end }) => vectorsOf(end)), alone);
  t.ok(open.addon.stats.embedCalls - before <= 4, `${open.addon.stats.embedCalls - before} calls for 40 requests`);
  t.equal(open.messages.flat().filter(({ kind }) => kind === 'started').length, 80, 'the gateway knows who may be to blame for a crash');
  await closeClean(t, open);
});

t.test('a big embedding request delays no small one, and short inputs do not overtake a long one', async (t) => {
  const open = await openEngine({}, { contextSize: 1200 });
  const order: string[] = [];
  const ask = (name: string, inputs: string[]) => open.embed(inputs).done.then(({ end }) => { order.push(name); return end; });
  const big = ask('big', Array.from({ length: 500 }, (_, i) => `a text of the big request ${i}`));
  const long = ask('long', ['x'.repeat(1100)]);
  const small = await Promise.all(Array.from({ length: 20 }, (_, i) => ask('small', [`small ${i}`])));
  t.ok(small.every(({ kind }) => kind === 'embedded'));
  t.match([await long, await big], [{ kind: 'embedded' }, { kind: 'embedded' }]);
  t.equal(order.at(-1), 'big');
  t.equal(order.length, 22);
  await closeClean(t, open);
});

t.test('an input that fails fails its own request only', async (t) => {
  const open = await openEngine();
  const texts = Array.from({ length: 12 }, (_, i) => (i % 5 === 2 ? `bad ${marks.failStep}` : `good ${i}`));
  const ends = await Promise.all(texts.map(async (text) => (await open.embed([text, `${text} again`]).done).end));
  for (const [i, end] of ends.entries()) {
    if (i % 5 === 2) t.match(end, { kind: 'error', error: { code: 'generation_failed' } });
    else t.match(end, { kind: 'embedded', tokenCounts: { length: 2 } });
  }
  t.strictSame(vectorsOf((await open.embed(['good 0', 'good 0 again']).done).end), vectorsOf(ends[0]!), 'and nothing is left of it');
  await closeClean(t, open);
});

t.test('a cancelled embedding request leaves those that share its calls alone', async (t) => {
  const open = await openEngine();
  const inputs = (name: string) => Array.from({ length: 300 }, (_, i) => `${name} ${i}`);
  const requests = ['one', 'two', 'three'].map((name) => open.embed(inputs(name)));
  while (open.addon.stats.embedCalls < 2) await turn();
  open.engine.cancel(requests[1]!.id);
  const ends = (await Promise.all(requests.map(({ done }) => done))).map(({ end }) => end);
  t.match(ends, [{ kind: 'embedded' }, { kind: 'error', error: { code: 'cancelled' } }, { kind: 'embedded' }]);
  t.strictSame(vectorsOf((await open.embed(inputs('three')).done).end), vectorsOf(ends[2]!));
  await closeClean(t, open);
});

t.test('a model that only embeds refuses chat, and one without pooling refuses embeddings', async (t) => {
  const encoder = await openEngine({ hasDecoder: false, pooling: 'mean' });
  t.match((await encoder.chat(chat('x')).done).end, { error: { code: 'chat_unsupported', param: 'model' } });
  t.match((await encoder.embed(['x']).done).end, { kind: 'embedded' });
  await closeClean(t, encoder);
  const reranker = await openEngine({ pooling: 'rank' });
  t.match((await reranker.embed(['x']).done).end, { error: { code: 'embeddings_unsupported' } });
  await closeClean(t, reranker);
});

t.test('close() finishes accepted requests and refuses later ones', async (t) => {
  const open = await openEngine({}, { parallel: 1 });
  const taken = Array.from({ length: 3 }, () => open.complete(completion('x', { constraint: say('finished') })).done);
  const closed = open.engine.close();
  const late = await open.complete(completion('x')).done;
  t.match(late.end, { error: { code: 'shutting_down' } });
  t.strictSame((await Promise.all(taken)).map(({ content }) => content), ['finished', 'finished', 'finished']);
  await closed;
  await closeClean(t, open);
});

t.test('events of one step travel in one message', async (t) => {
  const open = await openEngine();
  await Promise.all(Array.from({ length: 4 }, () => open.complete(completion('x', { constraint: say('abcdef') })).done));
  const together = open.messages.filter((events) => events.filter(({ kind }) => kind === 'delta').length === 4);
  t.ok(together.length >= 5, `${together.length} messages with a delta of each`);
  await closeClean(t, open);
});

t.test('requests that arrive together are read together: the shared part once, then all their ends', async (t) => {
  const open = await openEngine({ turns: [1, 3] }, { contextSize: 700, parallel: 4, batchSize: 512 });
  const asked = [1, 2, 3, 4].map((i) => open.complete(completion(`${'S'.repeat(200)}${'e'.repeat(10)}${i}`, { maxTokens: 1 })));
  await Promise.all(asked.map(({ done }) => done));
  const ends = open.messages.map((events) => events.filter(({ kind }) => kind === 'done').length).filter((count) => count > 0);
  t.strictSame(ends, [4], 'in one step');
  t.match(open.addon.stats, { steps: 2, copied: 3 * 211 });
  await closeClean(t, open);
});

// The core property: whatever arrives, joins, shares, fails and leaves, each answer equals the one
// it gives alone.
const kinds = [
  { name: 'full attention', fake: {} },
  { name: 'full attention, many at once', fake: { decodeMs: 1, lateReports: true }, parallel: 9 },
  { name: 'full attention, told of several steps at once', fake: { mostUntold: 3, lateReports: true } },
  { name: 'memory that cannot copy', fake: { copies: false } },
  { name: 'recurrent memory', fake: { recurrent: true } },
  { name: 'sliding-window memory', fake: { slidingWindow: 128 } },
  { name: 'guesses that come true', fake: { mostTokens: 6, lateReports: true }, drafts: true },
  { name: 'guesses that come true, told of several steps at once', fake: { mostTokens: 6, mostUntold: 4 }, drafts: true },
  { name: 'guesses that come true, many at once', fake: { mostTokens: 6, decodeMs: 1 }, parallel: 9, drafts: true },
  { name: 'recurrent memory, for which nothing is guessed', fake: { recurrent: true, mostTokens: 6 }, drafts: true },
];
for (const { name, fake, parallel = 3, drafts = false } of kinds) {
  t.test(`answers under random load equal solo answers: ${name}`, async (t) => {
    const next = random(name.length);
    const pick = (n: number) => Math.floor(next() * n);
    const beginnings = ['', 'S'.repeat(40), `${'S'.repeat(40)}T`.repeat(5), 'q'.repeat(300)];
    const open = await openEngine({ ...fake, turns: [1, 4] }, { contextSize: 700, parallel, batchSize: 48, specType: drafts ? 'ngram-simple' : 'none' });
    const asked: { request: ReturnType<typeof completion>; done: Promise<Outcome> }[] = [];
    const answers: string[] = [];
    for (let i = 0; i < 150; i++) {
      // A third of the requests continue an earlier answer, as a chat does.
      const prompt = i > 10 && pick(3) === 0 ? `${answers[pick(answers.length)] ?? ''}${'m'.repeat(pick(20))}` : `${beginnings[pick(4)]}${pick(1000)}`;
      const stop = pick(4) === 0 ? ['é', 'ab', String.fromCharCode(97 + pick(26))] : [];
      const request = completion(prompt, { maxTokens: 1 + pick(60), stop, sampling: { ...sampling, seed: pick(5) } });
      const { id, done } = open.complete(request);
      void done.then(({ content }) => answers.push(`${prompt}${content}`));
      asked.push({ request, done });
      if (pick(5) === 0) void (async () => {
        for (let turns = pick(40); turns > 0; turns--) await turn();
        open.engine.cancel(id);
      })();
      if (pick(25) === 0) open.complete(completion(`${beginnings[pick(4)]}${marks.failStep}`));
      for (let turns = pick(12); turns > 0; turns--) await turn();
    }
    const outcomes = await Promise.all(asked.map(({ done }) => done));
    await closeClean(t, open);
    if (drafts) t.equal(open.addon.stats.guessed > 500, !fake.recurrent, `${open.addon.stats.guessed} tokens were guessed`);
    const alone = await openEngine({ copies: false }, { contextSize: 700, parallel: 1 });
    let compared = 0;
    for (const [i, outcome] of outcomes.entries()) {
      if (outcome.end.kind !== 'done') {
        t.match(outcome.end, { error: { code: /cancelled|generation_failed/ } });
        continue;
      }
      compared++;
      const solo = await alone.complete(asked[i]!.request).done;
      if (solo.end.kind !== 'done') throw new Error('alone it fails');
      const { usage, finishReason } = outcome.end;
      const wanted = { content: solo.content, finishReason: solo.end.finishReason, tokens: solo.end.usage.completionTokens };
      t.strictSame({ content: outcome.content, finishReason, tokens: usage.completionTokens }, wanted);
    }
    t.ok(compared > 50, `${compared} answers compared`);
    await closeClean(t, alone);
  });
}

for (const fake of [{ recurrent: true }, { slidingWindow: 128 }]) {
  t.test(`a conversation continues from a checkpoint if its KV cannot be cut: ${Object.keys(fake)[0]}`, async (t) => {
    const open = await openEngine(fake, { parallel: 1, contextSize: 2000, batchSize: 64, cacheRamMib: 8 });
    const alone = await openEngine({ copies: false }, { contextSize: 2000, parallel: 1 });
    const both = async (prompt: string) => {
      const request = completion(prompt, { maxTokens: 30, sampling: { ...sampling, seed: 1 } });
      const [one, other] = await Promise.all([open.complete(request).done, alone.complete(request).done]);
      if (one.end.kind !== 'done') throw new Error('it failed');
      t.equal(one.content, other.content);
      return { content: one.content, cached: one.end.usage.cachedTokens };
    };
    const system = 'a system prompt, '.repeat(20);
    const first = await both(`${system}question one<think>`);
    t.equal(first.cached, 0);
    t.equal((await both(`${system}question one<think>`)).cached, system.length + 20 - 16, 'asked again, with the token that begins all');
    // Thoughts are left out of the history.
    const turn = `${system}question one the answer. ${'more words '.repeat(30)}`;
    t.ok((await both(turn)).cached >= system.length + 2, 'a turn that is written otherwise');
    const edited = await both(`${turn.slice(0, -40)}and an edit`);
    t.ok(edited.cached >= system.length + 2, 'an edited one');
    t.ok((await both(`${turn.slice(0, -40)}and an edit${edited.content}`)).cached > turn.length - 60, 'one that goes on');
    t.ok(open.addon.stats.rolledBack >= 3);
    // Another conversation takes the only place; the first returns from its stash.
    await both(`x${'quite another conversation '.repeat(20)}`);
    t.ok((await both(`${turn.slice(0, -40)}and another`)).cached >= system.length + 2, 'after another conversation');
    await closeClean(t, open);
    await closeClean(t, alone);
  });
}

t.test('a long conversation of a recurrent model is kept in memory, also after a short one', async (t) => {
  const open = await openEngine({ recurrent: true }, { parallel: 1, contextSize: 6000, cacheRamMib: 1 });
  const cached = async (prompt: string): Promise<number> => {
    const { end } = await open.complete(completion(prompt, { maxTokens: 2 })).done;
    if (end.kind !== 'done') throw new Error('it failed');
    return end.usage.cachedTokens;
  };
  for (const short of ['a', 'b', 'c']) await cached(short.repeat(80));
  const [one, other] = ['one long conversation, '.repeat(130), 'another conversation, '.repeat(130)];
  for (const prompt of [one, other]) await cached(prompt);
  for (const prompt of [one, other]) t.ok(await cached(prompt) > prompt.length - 100);
  await closeClean(t, open);
});

t.test('an answer that a stop string ended as its engine died leaves nothing behind its end, even if the KV cannot be cut', async (t) => {
  const open = await openEngine({ recurrent: true }, { parallel: 1 });
  const request = completion('beginning', { maxTokens: 30, constraint: say('one two three') });
  const prompt = (await open.loaded.model.tokenize('beginning', true, false));
  const said = Int32Array.from(Buffer.from('one two'));
  // The gateway knew the tokens of "two", and none of the text.
  const begun = { prompt, tokens: said, draws: said.length, exactly: true, endsThinking: false, arrivedMs: 3, startedMs: 2, firstMs: 1 };
  const resumed = await open.complete({ ...request, stop: ['two'] }, begun).done;
  t.match(resumed, { content: 'one ', end: { kind: 'done', finishReason: 'stop' } });
  const next = await open.complete(completion('beginningone two and more', { constraint: say('ok') })).done;
  t.match(next, { content: 'ok', end: { kind: 'done' } });
  await closeClean(t, open);
});

t.test('what was accepted before a crash is not refused after it', async (t) => {
  const open = await openEngine({}, { parallel: 1, queueSize: 1 });
  const again = { tokens: new Int32Array(0), draws: 0, exactly: true, endsThinking: false, arrivedMs: 1, startedMs: 0, firstMs: 0 };
  const prompt = await open.loaded.model.tokenize('x', true, false);
  const asker = { client: 'one', priority: -1 };
  const all = [0, 1, 2, 3].map((i) => open.complete(completion('x', { maxTokens: 2, ...(i < 2 ? {} : { asker }) }), { ...again, prompt }));
  for (const { done } of all) t.equal((await done).end.kind, 'done');
  await closeClean(t, open);
});

t.test('an answer that ran before a crash goes on before requests that had waited', async (t) => {
  const open = await openEngine({}, { parallel: 1 });
  const { model } = open.loaded;
  const prompt = await model.tokenize('beginning', true, false);
  const { createSampler } = model;
  // Its preparation takes longest.
  model.createSampler = async (...given) => {
    const sampler = await createSampler.apply(model, given);
    const { resume } = sampler;
    sampler.resume = async (...tokens) => {
      await new Promise((resolve) => setTimeout(resolve, 100));
      await resume.apply(sampler, tokens);
    };
    return sampler;
  };
  const order: string[] = [];
  const begun = { prompt, tokens: Int32Array.from(Buffer.from('one ')), draws: 4, exactly: true, endsThinking: false, arrivedMs: 3, startedMs: 2, firstMs: 1 };
  const ran = open.complete(completion('beginning', { constraint: say('one two three') }), begun).done.then(() => order.push('ran'));
  const waited = open.complete(completion('x', { constraint: say('ok') })).done.then(() => order.push('waited'));
  await Promise.all([ran, waited]);
  t.strictSame(order, ['ran', 'waited']);
  await closeClean(t, open);
});

t.test('requests that had waited before a crash keep their order', async (t) => {
  const open = await openEngine({}, { parallel: 1 });
  const { model } = open.loaded;
  const prompt = await model.tokenize('x', true, false);
  const { createSampler } = model;
  const count = (what: string) => open.messages.flat().filter(({ kind }) => kind === what).length;
  const runs = open.complete(completion('x', { constraint: say('x'.repeat(1_900)), maxTokens: 1_900 }));
  while (count('started') < 1) await turn();
  let samplers = 0;
  // The preparation of the first one takes longer.
  model.createSampler = async (...given) => {
    if (samplers++ === 0) while (count('accepted') < 2) await turn();
    return await createSampler.apply(model, given);
  };
  const order: string[] = [];
  const ask = (name: string, arrivedMs: number) => {
    const begun = { prompt, tokens: new Int32Array(0), draws: 0, exactly: true, endsThinking: false, arrivedMs, startedMs: 0, firstMs: 0 };
    return open.complete(completion('x', { constraint: say('ok') }), begun).done.then(() => order.push(name));
  };
  const both = [ask('first', 5_000), ask('second', 5_000)];
  while (count('accepted') < 3) await turn();
  open.engine.cancel(runs.id);
  await Promise.all(both);
  t.strictSame(order, ['first', 'second']);
  await closeClean(t, open);
});

t.test('no request starves while others keep arriving', async (t) => {
  const open = await openEngine({}, { parallel: 2, batchSize: 32 });
  const long = open.complete(completion('L'.repeat(1500), { maxTokens: 2 }));
  let ended = false;
  void long.done.then(() => (ended = true));
  for (let i = 0; i < 5_000 && !ended; i++) {
    open.complete(completion(`~${i}`, { maxTokens: 8 }));
    await turn();
    await turn();
  }
  t.ok(ended);
  await closeClean(t, open);
});

t.test('the fake model answers in pieces', async (t) => {
  t.equal(Buffer.from([...pieceBytes(tokens.faceBegin, false), ...pieceBytes(tokens.faceEnd, false)]).toString(), '😀');
});

t.test('long questions to the model wait for each other, and one that nobody waits for is not asked', async (t) => {
  const open = await openEngine();
  const go: (() => void)[] = [];
  const asked: string[] = [];
  const question = (name: string) => async () => {
    asked.push(name);
    await new Promise<void>((resolve) => go.push(resolve));
    return name;
  };
  const long = ['a', 'b', 'c', 'd'].map((name) => open.ask(true, question(name)));
  const short = open.ask(false, question('short'));
  await turn();
  t.strictSame(asked, ['short', 'a', 'b']);
  open.engine.cancel(long[2]!.id);
  for (const resolve of go.splice(0)) resolve();
  t.match((await long[2]!.done).end, { kind: 'error', error: { code: 'cancelled' } });
  while (go.length === 0) await turn();
  go[0]!();
  t.match((await long[3]!.done).end, { kind: 'result', value: 'd' });
  t.match((await short.done).end, { kind: 'result', value: 'short' });
  t.strictSame(asked, ['short', 'a', 'b', 'd']);
  await closeClean(t, open);
});
