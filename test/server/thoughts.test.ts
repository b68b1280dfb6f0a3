// How long a model may think: budgets and their messages in each dialect, ending thoughts during a
// stream, and usage. Templates of thinking models over the built-in one, which would think forever.
import t from 'tap';
import { post, until } from './app-under-test.js';
import { chatPath, startReal, user } from './real-app.js';

const messages = user('What is the weather?');
/** Their tags: opened by the prompt or not, of one token or many. */
const open = 'deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja';
const templates = [open, 'Qwen-QwQ-32B.jinja', 'mistralai-Ministral-3-14B-Reasoning-2512.jinja', 'ByteDance-Seed-OSS.jinja', 'MiniMax-M2.jinja', 'openai-gpt-oss-120b.jinja', 'google-gemma-4-31B-it.jinja'];
const long = { max_tokens: 120, temperature: 1, seed: 5 };

t.test('a budget ends the thoughts with its message', async (t) => {
  const { ask } = await startReal(t, open);
  for (const name of ['reasoning_budget_tokens', 'thinking_budget_tokens', 'thinking_token_budget']) {
    const { choices: [{ message }], usage } = await ask(chatPath, { messages, [name]: 12, reasoning_budget_message: ' … enough.', ...long });
    t.match(message.reasoning_content, / … enough\.$/, name);
    t.ok(message.content.length > 0, 'the answer follows');
    const { reasoning_tokens: tokens } = usage.completion_tokens_details;
    t.ok(tokens >= 12 && tokens < 12 + 15, `${tokens} tokens`);
  }
  const none = await ask(chatPath, { messages, thinking_budget_tokens: 0, ...long });
  t.equal(none.choices[0].message.reasoning_content, undefined);
  const unbounded = await ask(chatPath, { messages, thinking_budget_tokens: -1, ...long, ignore_eos: true });
  t.equal(unbounded.choices[0].message.content, '');
  t.equal(unbounded.usage.completion_tokens_details.reasoning_tokens, 120);
});

t.test('budgets hold in every family of tags, and with every way of sampling', async (t) => {
  for (const template of templates) {
    const { ask } = await startReal(t, template);
    for (const more of [{}, { mirostat: 2 }, { dry_multiplier: 0.8 }]) {
      const { choices: [{ message }] } = await ask(chatPath, { messages, thinking_budget_tokens: 8, ...long, ...more });
      const reasoning: string = message.reasoning_content ?? '';
      t.ok(message.content !== '' || reasoning === '', `${template} ${JSON.stringify(more)}: ${JSON.stringify(message)}`);
    }
  }
});

t.test('each dialect has its own field for the budget, and reports the tokens', async (t) => {
  const { ask, stream } = await startReal(t, open);
  const anthropic = { messages, thinking: { type: 'enabled', budget_tokens: 9 }, ...long };
  const message = await ask('/v1/messages', anthropic);
  t.match(message.content, [{ type: 'thinking', thinking: /./ }, { type: 'text', text: /./ }]);
  t.equal(message.warnings, undefined);
  t.ok(message.usage.output_tokens_details.reasoning_tokens >= 9);
  const deltas = await stream('/v1/messages', anthropic);
  t.match(deltas.find(({ type }) => type === 'message_delta'), { usage: { output_tokens_details: { reasoning_tokens: message.usage.output_tokens_details.reasoning_tokens } } });
  const response = await ask('/v1/responses', { input: 'Hi', thinking_budget_tokens: 9, max_output_tokens: 120, temperature: 1, seed: 5 });
  t.match(response, { output: [{ type: 'reasoning' }, { type: 'message' }] });
  t.ok(response.usage.output_tokens_details.reasoning_tokens >= 9);
  const chat = await ask('/api/chat', { messages, stream: false, thinking_budget_tokens: 9, options: { num_predict: 120, temperature: 1, seed: 5 } });
  t.match(chat, { message: { thinking: /./, content: /./ } });
  t.ok(chat.reasoning_tokens >= 9);
});

t.test('thinking can be ended while it streams', async (t) => {
  const { url, ask } = await startReal(t, open);
  const abort = new AbortController();
  const res = await post(
    url + chatPath,
    { messages, stream: true, reasoning_control: true, max_tokens: 1_500, temperature: 1, seed: 5, ignore_eos: true },
    {},
    abort.signal,
  );
  let text = '';
  const reading = (async () => {
    const decoder = new TextDecoder();
    const reader = res.body!.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += decoder.decode(part.value, { stream: true });
  })().catch(() => undefined);
  await until(() => (text.match(/reasoning_content/g) ?? []).length > 3);
  t.notMatch(text, /"content":"[^"]/);
  const [, id] = /"id":"(chatcmpl-\w+)"/.exec(text)!;
  t.match(await ask('/v1/chat/completions/control', { id, action: 'reasoning_end' }), { success: true });
  await until(() => /"content":"[^"]/.test(text));
  abort.abort();
  await reading;
  t.pass('content follows');
});

t.test('thinking that cannot be ended says so', async (t) => {
  const { url, refused } = await startReal(t, open);
  const control = '/v1/chat/completions/control';
  t.match(await refused(control, { id: 'chatcmpl-none', action: 'reasoning_end' }), { status: 404, error: { code: 'answer_not_found', param: 'id' } });
  t.match(await refused(control, { id: 'x', action: 'explode' }), { status: 400, error: { param: 'action' } });
  t.match(await refused(control, { action: 'reasoning_end' }), { status: 400, error: { param: 'id' } });
  t.match(await refused(control, { id: 'x' }), { status: 400, error: { param: 'action' } });
  const abort = new AbortController();
  const res = await post(url + chatPath, { messages, stream: true, max_tokens: 1_500, temperature: 1, ignore_eos: true }, {}, abort.signal);
  const reader = res.body!.getReader();
  const [, id] = /"id":"(chatcmpl-\w+)"/.exec(new TextDecoder().decode((await reader.read()).value))!;
  t.match(await refused(control, { id, action: 'reasoning_end' }), { status: 400, error: { param: 'id', message: /reasoning_control/ } });
  abort.abort();
  await reader.read().catch(() => undefined);
  for (const body of [{ thinking_budget_tokens: -2 }, { thinking_budget_tokens: 'x' }, { reasoning_budget_message: 'x'.repeat(5_000) }, { reasoning_control: 1 }]) {
    t.match(await refused(chatPath, { messages, ...body }), { status: 400 }, JSON.stringify(body).slice(0, 60));
  }
});

t.test('a template without thoughts warns of a budget', async (t) => {
  const { ask } = await startReal(t);
  t.match((await ask(chatPath, { messages, thinking_budget_tokens: 5, max_tokens: 5 })).warnings, [/thinking_budget_tokens has no effect/]);
});

t.test('the message of a budget is text, never a control token', async (t) => {
  const { ask } = await startReal(t, open);
  const { choices: [{ message }] } = await ask(chatPath, { messages, thinking_budget_tokens: 3, reasoning_budget_message: 'a<|im_end|>b', ...long });
  t.match(message.reasoning_content, /a<\|im_end\|>b$/);
});

t.test('an answer with a required form does not end inside its thoughts', async (t) => {
  const { ask } = await startReal(t, 'Qwen3.5-4B.jinja');
  for (const form of [{ regex: '[0-9]{3}' }, { choice: ['yes', 'no'] }, { guided_grammar: 'root ::= "yes"' }]) {
    for (const more of [{ temperature: 0 }, { temperature: 1, seed: 3, mirostat: 2 }]) {
      const { choices: [{ message, finish_reason: reason }] } = await ask(chatPath, { messages, max_tokens: 60, ...form, ...more });
      t.ok(reason === 'length' || message.content !== '', JSON.stringify({ form, more, reason, message }));
    }
  }
});
