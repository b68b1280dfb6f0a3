// A request that excludes every answer is a 400 that says why, never an internal error. A required
// form appears, however unlikely for the model.
import t from 'tap';
import { chatPath, startReal, user, type RealApp } from './real-app.js';

let app: RealApp;
t.before(async () => { app = await startReal(t); });

const messages = user('What is the weather in Paris?');
const tool = (name: string) => ({ type: 'function', function: { name, parameters: { type: 'object', properties: { on: { type: 'boolean' } }, required: ['on'], additionalProperties: false } } });

t.test('a required call comes at any temperature, whole and streamed', async (t) => {
  const choices = ['required', { type: 'function', function: { name: 'lamp' } }, { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'lamp' } }] } }];
  for (const [at, choice] of choices.entries()) {
    for (let seed = 0; seed < 4; seed++) {
      const body = { messages, tools: [tool('lamp'), tool('fan')], tool_choice: choice, temperature: 20, top_p: 1, top_k: 0, min_p: 0, seed, max_tokens: 200, parallel_tool_calls: false };
      const { message, finish_reason: reason } = (await app.ask(chatPath, body)).choices[0];
      t.equal(reason, 'tool_calls');
      t.match(message, { content: null, tool_calls: [{ function: { name: at === 0 ? /lamp|fan/ : 'lamp', arguments: /^\{\s*"on"\s*:\s*(true|false)\s*\}$/ } }] });
      const deltas = (await app.stream(chatPath, body)).flatMap(({ choices: [one] }: any) => (one ? [one.delta] : []));
      t.equal(deltas.map(({ content }: any) => content ?? '').join(''), '');
      t.equal(deltas.flatMap(({ tool_calls: calls }: any) => calls ?? []).map((call: any) => call.function.arguments ?? '').join(''), message.tool_calls[0].function.arguments);
    }
  }
  const both = { messages, tools: [tool('lamp')], tool_choice: 'required', response_format: { type: 'json_object' }, max_tokens: 200, temperature: 5 };
  t.match((await app.ask(chatPath, both)).choices[0].message.tool_calls, [{ function: { name: 'lamp' } }], 'a format of the answer is no way out');
});

t.test('thoughts come before a required call, and no longer than their budget', async (t) => {
  const { ask } = await startReal(t, 'deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja');
  const body = { messages, tools: [tool('lamp')], tool_choice: 'required', thinking_budget_tokens: 8, temperature: 1, seed: 3, max_tokens: 200, parallel_tool_calls: false };
  const { choices: [{ message }], usage } = await ask(chatPath, body);
  t.match(message, { reasoning_content: /./, content: null, tool_calls: [{ function: { name: 'lamp' } }] });
  t.ok(usage.completion_tokens_details.reasoning_tokens < 8 + 15);
});

t.test('a template without calls refuses to require one', async (t) => {
  const { refused } = await startReal(t, 'microsoft-Phi-3.5-mini-instruct.jinja');
  const body = { messages, tools: [tool('lamp')], tool_choice: 'required', max_tokens: 8 };
  t.match(await refused(chatPath, body), { status: 400, error: { code: 'chat_unsupported', message: /no form for calls/ } });
});

t.test('a constraint that no token can spell is refused', async (t) => {
  const bodies: [object, string][] = [
    [{ regex: 'a\0' }, 'regex'], [{ regex: '\\x00+' }, 'regex'], [{ choice: ['\0', 'a\0b'] }, 'choice'], [{ guided_grammar: 'root ::= "\\x00"' }, 'guided_grammar'], [{ grammar: 'root ::= "\\x00"' }, 'grammar'],
  ];
  for (const [more, param] of bodies) {
    t.match(await app.refused(chatPath, { messages, max_tokens: 20, ...more }), { status: 400, error: { code: 'invalid_grammar', param, message: /U\+0000/ } }, JSON.stringify(more));
  }
  t.match(await app.refused(chatPath, { messages, tools: [{ type: 'function', function: { name: 'a\0b' } }] }), { status: 400, error: { code: 'invalid_value', param: 'tools[0].function.name' } });
  for (const name of ['messages', 'tools']) t.match(await app.refused(chatPath, { messages, chat_template_kwargs: { [name]: [] } }), { status: 400, error: { code: 'invalid_value' } });
  t.match(await app.refused(chatPath, { messages, max_tokens: 20, grammar: 'root ::= "\0"' }), { status: 400, error: { code: 'invalid_grammar', param: 'grammar' } });
  const kept = await app.ask(chatPath, { messages, max_tokens: 20, choice: ['a\0', 'yes'], temperature: 20 });
  t.equal(kept.choices[0].message.content, 'yes');
  const { choices: [{ message: { content } }] } = await app.ask(chatPath, { messages, max_tokens: 40, guided_json: { const: '\0' } });
  t.equal(JSON.parse(content), '\0');
});

t.test('an answer that may not end where it must is refused, or says so', async (t) => {
  for (const more of [{ regex: '[ab]{3}' }, { choice: ['yes', 'no'] }, { grammar: 'root ::= "yes"' }]) {
    t.match(await app.refused(chatPath, { messages, max_tokens: 20, ignore_eos: true, ...more }), { status: 400, error: { code: 'invalid_grammar', param: Object.keys(more)[0], message: /ignore_eos/ } }, JSON.stringify(more));
  }
  const endless = await app.ask(chatPath, { messages, max_tokens: 20, ignore_eos: true, regex: '[ab]+' });
  t.match(endless.choices[0], { finish_reason: 'length', message: { content: /^[ab]{20,}$/ } });
  const schema = { messages, max_tokens: 200, ignore_eos: true, json_schema: { type: 'object', properties: { a: { type: 'string', maxLength: 3 } }, required: ['a'], additionalProperties: false } };
  t.match(await app.refused(chatPath, schema), { status: 400, error: { message: /ignore_eos/ } });
});

t.test('a ban on all remaining tokens is an error of the request', async (t) => {
  const { tokens } = await app.ask('/tokenize', { content: 'yes' });
  const bans = { logit_bias: ['y', 'ye', 'yes', 'e', 's', 'es'].map((text) => [text, false]) };
  const body = { messages, max_tokens: 20, choice: ['yes'], ...bans };
  t.ok(tokens.length > 0);
  t.match(await app.refused(chatPath, body), { status: 400, error: { code: 'no_token_left', type: 'invalid_request_error', message: /logit_bias/ } });
});

t.test('half a character is refused with its field', async (t) => {
  const bodies: [object, string][] = [
    [{ messages: user('a\ud83d') }, 'messages[0].content'], [{ messages, stop: ['x', '\udc00!'] }, 'stop[1]'], [{ messages, tools: [tool('lam\ud800p')] }, 'tools[0].function.name'],
  ];
  for (const [body, param] of bodies) {
    const { status, error } = await app.refused(chatPath, body);
    t.match({ status, error }, { status: 400, error: { code: 'invalid_value', param, message: /half of a character/ } }, param);
  }
  t.equal((await app.ask(chatPath, JSON.parse('{"messages":[{"role":"user","content":"\\ud83c\\udf89"}],"max_tokens":2}'))).object, 'chat.completion');
});
