import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import t from 'tap';
import { tool, type Message, type ReplyDelta } from 'recua';
import { deferred } from '../deferred.js';
import { codeOf, endless, inBothModes } from './modes.js';

const greedy = { temperature: 0 };

inBothModes('a reply can be iterated and awaited', async (t, load) => {
  const model = await load(t);
  const reply = model.chat('Hello!', greedy);
  let text = '';
  for await (const { content } of reply) text += content ?? '';
  const result = await reply;
  t.ok(text.length > 10);
  t.equal(result.content, text);
  t.match(result, { finishReason: 'stop', reasoning: '', toolCalls: [], object: undefined, warnings: [], messages: [{ role: 'assistant', content: text }] });
  t.ok(result.usage.promptTokens > 0 && result.usage.completionTokens > 0);
  t.ok(result.timings.promptMs > 0 && result.timings.generateMs > 0);
  t.type(result.seed, 'number');
  t.equal((await model.chat('Hello!', greedy)).content, text, 'awaited alone it is the same');
  t.equal(await model.chat('Hello!', greedy).then(({ content }) => content), text);
});

inBothModes('a second loop over a reply is refused', async (t, load) => {
  const model = await load(t);
  const reply = model.chat('Hello!', { ...greedy, maxTokens: 2 });
  for await (const { content } of reply) t.type(content, 'string');
  t.throws(() => reply[Symbol.asyncIterator](), { code: 'invalid_usage', message: /only once/ });
  t.match(await reply, { finishReason: 'length' });
});

inBothModes('the tokens of thoughts are counted', async (t, load) => {
  const chatTemplate = '{% for m in messages %}{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n{% endif %}{{ m.content }}\n{% endfor %}'
    + '{% if add_generation_prompt %}<think>\n{% endif %}';
  const model = await load(t, { chatTemplate });
  const { reasoning, usage } = await model.chat('Tell me a story', { ...greedy, ...endless, maxTokens: 12 });
  t.ok(reasoning.length > 0);
  t.match(usage, { completionTokens: 12, reasoningTokens: 12 });
});

inBothModes('deltas that are read late are merged', async (t, load) => {
  const model = await load(t);
  const reply = model.chat('Count to 5.', greedy);
  const { content } = await reply;
  const deltas: ReplyDelta[] = [];
  for await (const delta of reply) deltas.push(delta);
  t.strictSame(deltas, [{ content }]);
});

inBothModes('a conversation continues with the messages of the result', async (t, load) => {
  const model = await load(t);
  const conversation: Message[] = [{ role: 'user', content: 'My name is Ifeoma.' }];
  const first = await model.chat(conversation, greedy);
  conversation.push(...first.messages, { role: 'user', content: 'What is my name?' });
  const second = await model.chat(conversation, greedy);
  t.match(second.content, /Ifeoma/);
  t.ok(second.usage.cachedTokens > 0, 'the beginning was not read again');
});

inBothModes('a conversation that changes after the call is answered as it was', async (t, load) => {
  const model = await load(t);
  const conversation: Message[] = [{ role: 'user', content: 'Hello!' }];
  const alone = await model.chat([...conversation], greedy);
  const reply = model.chat(conversation, greedy);
  // Where a program will show the answer.
  const shown = { role: 'assistant' as const, content: '' };
  conversation.push(shown);
  for await (const { content } of reply) shown.content += content ?? '';
  t.equal(shown.content, alone.content);
  t.equal((await reply).usage.promptTokens, alone.usage.promptTokens);
});

inBothModes('concurrent answers are the same as alone', async (t, load) => {
  const model = await load(t, { parallel: 4 });
  const questions = ['Hello!', 'What is 2 + 3?', 'Repeat: red roses', 'Who are you?', 'Count to 5.', 'Bye.'];
  const alone: string[] = [];
  for (const question of questions) alone.push((await model.chat(question, greedy)).content);
  const together = await Promise.all(questions.map((question) => model.chat(question, greedy)));
  t.same(together.map(({ content }) => content), alone);
});

inBothModes('a seed gives the same answer again', async (t, load) => {
  const model = await load(t);
  const options = { temperature: 1.5, maxTokens: 30, ignoreEos: true };
  const { content, seed } = await model.chat('Tell me a story', options);
  t.equal((await model.chat('Tell me a story', { ...options, seed })).content, content);
});

inBothModes('complete continues a text or tokens', async (t, load) => {
  const model = await load(t);
  const prompt = await model.tokenize('The capital of', { addSpecial: true });
  const options = { ...greedy, maxTokens: 8, ignoreEos: true };
  const reply = model.complete('The capital of', options);
  let text = '';
  for await (const { content } of reply) text += content ?? '';
  t.match(await reply, { content: text, finishReason: 'length', usage: { completionTokens: 8 } });
  t.equal((await model.complete(prompt, options)).content, text);
});

inBothModes('stop texts and grammars hold', async (t, load) => {
  const model = await load(t);
  t.match((await model.chat('Is the sky blue?', { ...greedy, grammar: 'root ::= ("yes" | "no") "."' })).content, /^(yes|no)\.$/);
  t.notMatch((await model.chat('Count to 5.', { ...greedy, stop: '3' })).content, /3/);
  await t.rejects(async () => await model.chat('Hello!', { stop: ['a', '\ude00'] }), { code: 'invalid_value', param: 'stop[1]', message: /half of a character/ });
});

inBothModes('embed gives unit vectors, one or several', async (t, load) => {
  const model = await load(t);
  const one = await model.embed('red roses');
  t.equal(one.length, model.info.embeddingSize);
  t.ok(Math.abs(Math.hypot(...one) - 1) < 1e-5);
  const several = await model.embed(['red roses', 'blue violets']);
  t.equal(several.length, 2);
  t.ok(one.reduce((sum, x, i) => sum + x * several[0][i], 0) > 0.9999);
  for (const { buffer, byteLength } of [one, ...several, await model.tokenize('red')]) t.equal(buffer.byteLength, byteLength, 'each has its own memory');
  t.same(await model.embed([]), []);
  t.equal(await codeOf(model.embed(['fine', ''])), 'invalid_value');
  t.equal(await codeOf(model.embed([, 'fine'] as never)), 'invalid_type');
  t.equal(await codeOf(model.embed('x', { signal: AbortSignal.abort() })), 'cancelled');
});

inBothModes('many calls may share one signal', async (t, load) => {
  const model = await load(t);
  const warned: string[] = [];
  const warn = ({ message }: Error): void => void warned.push(message);
  process.on('warning', warn);
  t.teardown(() => process.off('warning', warn));
  const { signal } = new AbortController();
  await Promise.all(Array.from({ length: 12 }, () => [model.complete('a', { maxTokens: 1, signal }), model.embed('a', { signal })]).flat());
  await new Promise(setImmediate);
  t.strictSame(warned, []);
});

inBothModes('tokens and text go both ways', async (t, load) => {
  const model = await load(t);
  const text = '\uFEFFnaïve café 北京 🦙';
  const tokens = await model.tokenize(text);
  t.type(tokens, Int32Array);
  t.equal(await model.detokenize(tokens), text);
  t.equal(await model.countTokens(text), tokens.length);
  t.ok((await model.tokenize('<|im_end|>', { parseSpecial: true })).length < await model.countTokens('<|im_end|>'), 'control tokens only where they are asked for');
  t.same(await model.detokenize([]), '');
  for (const wrong of [-1, 1.5, model.info.vocabSize, 2 ** 32, NaN]) t.equal(await codeOf(model.detokenize([wrong])), 'invalid_value', String(wrong));
  const detached = Int32Array.of(1);
  structuredClone(detached, { transfer: [detached.buffer] });
  for (const wrong of [detached, { length: 1e12 }, ['1'], [null], [true], [Symbol('x')], undefined, null, 5, 'x', {}, Symbol('x'), Promise.resolve([1])]) t.equal(await codeOf(model.detokenize(wrong as never)), 'invalid_type');
  for (const wrong of [detached, new Proxy(Int32Array.of(5), {}), Object.create(Int32Array.prototype)]) {
    t.equal(await codeOf(model.complete(wrong as never)), 'invalid_type', 'neither a Proxy nor a likeness');
  }
});

inBothModes('a prompt of tokens is what it was at the call', async (t, load) => {
  const model = await load(t);
  const tokens = await model.tokenize('Once upon a time, there was a');
  const alone = await model.complete(tokens, greedy);
  const shared = new Int32Array(new SharedArrayBuffer(4 * tokens.length));
  for (const prompt of [tokens.slice(), (shared.set(tokens), shared)]) {
    const reply = model.complete(prompt, greedy);
    prompt.fill(2 ** 30);
    t.equal((await reply).content, alone.content);
  }
});

inBothModes('a model that is not a reranker says so', async (t, load) => {
  const model = await load(t);
  t.equal(model.info.canRerank, false);
  t.equal(await codeOf(model.rerank('a', ['b', 'c'])), 'rerank_unsupported');
  t.equal(await codeOf(load(t, { pooling: 'rank' })), 'model_unusable', 'nor does asking for it make it one');
});

inBothModes('with a saved state the conversation is not evaluated again', async (t, load) => {
  const path = join(t.testdir(), 'state');
  const model = await load(t);
  const conversation: Message[] = [{ role: 'user', content: `Remember: ${'red roses, blue violets, '.repeat(20)}` }];
  const first = await model.chat(conversation, greedy);
  for (const wrong of [undefined, 7, '', 'a\0b']) t.match(await codeOf(model.saveState(wrong as string)), /^invalid_/);
  const saved = await model.saveState(path);
  t.ok(saved.tokens > 100);
  t.equal(saved.sizeBytes, statSync(path).size);
  await model.dispose();
  const again = await load(t);
  t.match(await again.restoreState(path), { tokens: saved.tokens });
  const second = await again.chat([...conversation, ...first.messages, { role: 'user', content: 'Bye.' }], greedy);
  t.ok(second.usage.cachedTokens > 100);
  writeFileSync(path, 'nonsense');
  t.match(await again.restoreState(path), { tokens: 0, reason: /no saved state/ });
  t.equal(await codeOf(again.restoreState(`${path}.not`)), 'file_unreadable');
});

inBothModes('a signal, cancel() and leaving the loop cancel an answer', async (t, load) => {
  const model = await load(t);
  const controller = new AbortController();
  const bySignal = model.chat('Tell me a story', { ...endless, signal: controller.signal });
  for await (const _ of bySignal) {
    controller.abort();
    break;
  }
  t.equal(await codeOf(bySignal), 'cancelled');
  const byCall = model.chat('Tell me a story', endless);
  let seen = 0;
  await t.rejects(async () => {
    for await (const _ of byCall) if (seen++ === 3) byCall.cancel();
  }, { code: 'cancelled' });
  t.equal(await codeOf(byCall), 'cancelled');
  const left = model.complete('Once', endless);
  for await (const _ of left) break;
  t.equal(await codeOf(left), 'cancelled');
  t.equal(await codeOf(model.chat('x', { signal: AbortSignal.abort() })), 'cancelled');
  t.match(await model.chat('Hello!', greedy), { finishReason: 'stop' });
});

inBothModes('dispose ends running work and may be repeated, and later calls reject with closed', async (t, load) => {
  const model = await load(t);
  const events: string[] = [];
  model.on('closed', () => events.push('closed'));
  const running = [model.chat('Tell me a story', endless), model.complete('Once', endless)];
  for await (const _ of running[0]) break;
  const cut = model.chat('Tell me a story', endless);
  for await (const { content } of cut) if (content) break;
  const more = model.chat('Tell me a story', endless);
  const embedding = model.embed(Array.from({ length: 200 }, (_, i) => `text ${i}`));
  const disposing = model.dispose();
  t.equal(model.dispose(), disposing);
  t.same(await Promise.all([running[1], more, embedding].map(codeOf)), ['closed', 'closed', 'closed']);
  await disposing;
  const after = [
    model.chat('x'), model.complete('x'), model.embed('x'), model.rerank('x', ['y']), model.tokenize('x'), model.countTokens('x'),
    model.detokenize([1]), model.saveState('x'), model.restoreState('x'),
  ];
  t.same(await Promise.all(after.map(codeOf)), after.map(() => 'closed'));
  await model.dispose();
  t.same(events, ['closed']);
  t.ok(model.info.contextSize > 0, 'what it was can still be asked');
});

inBothModes('dispose can let answers end', async (t, load) => {
  const model = await load(t);
  const reply = model.chat('Hello!', greedy);
  for await (const _ of reply) break;
  const whole = model.chat('Who are you?', greedy);
  for await (const delta of whole) {
    if (delta.content) break;
  }
  const last = model.chat('Bye.', greedy);
  await new Promise(setImmediate);
  await model.dispose({ drainMs: 60_000 });
  t.match(await last, { finishReason: 'stop' });
  const other = await load(t);
  const long = other.complete('Once', { ...endless, maxTokens: 500 });
  for await (const _ of long) {
    await other.dispose({ drainMs: Infinity });
    break;
  }
  t.match(await long, { finishReason: 'length' });
});

inBothModes('a second dispose() does not wait for what the first one waits for', async (t, load) => {
  const model = await load(t);
  const { promise: isCalled, resolve: called } = deferred();
  const never = tool({ execute: () => {
    called();
    return new Promise(() => undefined);
  } });
  const reply = model.chat('Hello!', { tools: { never }, toolChoice: 'required' });
  const failed = t.rejects(reply, { code: 'closed' });
  await isCalled;
  const first = model.dispose({ drainMs: Infinity });
  await model.dispose();
  await Promise.all([first, failed]);
});

inBothModes('dispose() refuses wrong options, and works after that', async (t, load) => {
  const model = await load(t);
  for (const [options, param] of [[null, 'options'], [{ drainMs: NaN }, 'drainMs'], [{ drainMs: -1 }, 'drainMs'], [{ drainMs: '5' }, 'drainMs'], [{ drain: 5 }, 'drain']] as const) {
    t.match(await model.dispose(options as never).catch((thrown: unknown) => thrown), { param }, JSON.stringify(options));
  }
  t.match(await model.chat('Hello!', greedy), { finishReason: 'stop' });
  await model.dispose({ drainMs: undefined });
});

inBothModes('await using disposes', async (t, load) => {
  const model = await load(t);
  await model[Symbol.asyncDispose]();
  t.equal(await codeOf(model.chat('x')), 'closed');
});

inBothModes('wrong arguments are refused by name, before any work', async (t, load) => {
  const model = await load(t);
  const circular: { type: string; items?: object } = { type: 'array' };
  circular.items = circular;
  const wrong: [input: unknown, options: object | undefined, code: string, param: string | undefined][] = [
    [[], undefined, 'invalid_value', 'messages'],
    [7, undefined, 'invalid_type', 'messages'],
    [[{ role: 'robot', content: 'x' }], undefined, 'invalid_value', 'messages[0].role'],
    [[{ role: 'user' }], undefined, 'invalid_type', 'messages[0].content'],
    [new Array(2), undefined, 'invalid_type', 'messages[0]'],
    ['x', { logitBias: new Map([[1, 2]]) }, 'invalid_type', 'logitBias'],
    [[{ role: 'tool', content: 'x' }], undefined, 'invalid_type', 'messages[0].toolCallId'],
    ['cut \ud83e', undefined, 'invalid_value', 'messages[0].content'],
    ['x', { schema: { enum: ['a', '\ud83e'] } }, 'invalid_value', 'schema.enum[1]'],
    ['x', { temprature: 1 }, 'invalid_value', 'temprature'],
    ['x', { temperature: 'hot' }, 'invalid_type', 'temperature'],
    ['x', { topP: 2 }, 'invalid_value', 'topP'],
    ['x', { maxTokens: 0 }, 'invalid_value', 'maxTokens'],
    ['x', { maxTokens: 1e309 }, 'invalid_type', 'maxTokens'],
    ['x', { stop: [''] }, 'invalid_value', 'stop[0]'],
    ['x', { logitBias: { 99999999: 1 } }, 'invalid_value', 'logitBias.99999999'],
    ['x', { signal: {} }, 'invalid_type', 'signal'],
    ['x', { schema: 'object' }, 'invalid_type', 'schema'],
    ['x', { schema: circular }, 'invalid_type', 'schema'],
    ['x', { tools: { add: { parameters: circular } } }, 'invalid_type', 'tools.add.parameters'],
    ['x', { schema: { const: 7n } }, 'invalid_type', 'schema'],
    ['x', { templateOptions: { size: 7n } }, 'invalid_type', 'templateOptions.size'],
    ['x', { templateOptions: { name: '\ud83e' } }, 'invalid_value', 'templateOptions.name'],
    ['x', { templateOptions: { deep: JSON.parse('['.repeat(3_500) + ']'.repeat(3_500)) as unknown } }, 'invalid_value', 'templateOptions.deep'],
    ['x', { schema: {}, grammar: 'root ::= "x"' }, 'invalid_value', 'grammar'],
    ['x', { tools: { a: {} }, toolChoice: { name: 'b' } }, 'invalid_value', 'toolChoice.name'],
    ['x', { tools: { a: { execute: 1 } } }, 'invalid_type', 'tools.a.execute'],
    ['x', { grammar: 'nonsense' }, 'invalid_grammar', 'grammar'],
    ['x '.repeat(9000), undefined, 'context_length_exceeded', 'messages'],
  ];
  for (const [input, options, code, param] of wrong) {
    await t.rejects(
      Promise.resolve(model.chat(input as string, options)),
      { code, ...(param === undefined ? {} : { param }) },
      inspect([String(input).slice(0, 20), options]),
    );
  }
  await t.rejects(Promise.resolve(model.chat('x', { maxTokns: 5 } as object)), { code: 'invalid_value', param: 'maxTokns', message: 'Unknown option maxTokns. Did you mean maxTokens?' });
  await t.rejects(Promise.resolve(model.chat('x', { nothingLikeIt: 5 } as object)), { code: 'invalid_value', message: /^Unknown option nothingLikeIt; expected one of .*maxTokens, / });
  t.equal(await codeOf(model.complete(7 as unknown as string)), 'invalid_type');
  t.equal(await codeOf(model.tokenize(7 as unknown as string)), 'invalid_type');
  // An engine process ends if a message is larger than any that it expects.
  await t.rejects(model.embed(Array<string>(30).fill('x'.repeat(40_000_000))), { code: 'invalid_value', param: 'texts' });
  // Their vectors would come in a message of a gigabyte, for which the engine process is ended.
  const many = model.embed(Array<string>(2_100_000).fill('x'), { signal: AbortSignal.timeout(20_000) });
  await t.rejects(many, { code: 'invalid_value', param: 'texts', message: /at most 1048576 texts \(pass them in several calls\)/ });
  await t.rejects(model.rerank('x', Array<string>(30).fill('x'.repeat(40_000_000))), { code: 'invalid_value', param: 'documents' });
  const { loadModel } = await import('recua');
  await t.rejects(loadModel('builtin', { isolated: false, sandbox: 'on' }), { code: 'invalid_value', param: 'sandbox' });
});

t.test('a reply that nobody reads does not crash the program', async (t) => {
  const { loadModel } = await import('recua');
  const model = await loadModel('builtin', { isolated: false });
  t.teardown(() => model.dispose());
  void model.chat('x', { topP: 7 });
  await new Promise((resolve) => setTimeout(resolve, 20));
  t.pass();
});
