// native/chat/turns: messages that a template refuses are rewritten in the usual form, accepted
// ones stay unchanged, and a conversation that is still refused names the message.
import t from 'tap';
import type { NativeModel } from '#recua/addon/addon.js';
import { chatInput, templateFiles, templateOf, vocabulary, type Message } from './exact-history.js';

let model: NativeModel;
t.before(async () => { model = await vocabulary('qwen2'); });
t.teardown(() => model.close());

const strict = `{%- for message in messages %}{%- if (message.role == 'system') != (loop.first and message.role == 'system') %}{{ raise_exception('System message must be at the beginning') }}{%- endif %}
{%- if not loop.first and message.role == messages[loop.index0 - 1].role and message.role != 'tool' %}{{ raise_exception('Roles must alternate') }}{%- endif %}
{{- '<' + message.role + '>' + (message.content or '') }}{%- for call in message.tool_calls or [] %}{{ call.function.name }}({% for key, value in call.function.arguments.items() %}{{ key }}={{ value }}{% endfor %}){% endfor %}{%- endfor %}`;
const render = async (messages: object[], template = strict) => (await model.applyChatTemplate(chatInput(messages as Message[], template, 'plain', { addGenerationPrompt: false }))).prompt;
const call = (args: string, id = 'abcdefghi') => ({ role: 'assistant', content: null, tool_calls: [{ id, type: 'function', function: { name: 'look', arguments: args } }] });

t.test('consecutive turns, late system messages and odd calls are rewritten for the template', async (t) => {
  const system = { role: 'system', content: 'Be kind.' };
  const user = (content: string) => ({ role: 'user', content });
  const assistant = (content: string) => ({ role: 'assistant', content });
  t.equal(await render([system, user('a'), assistant('b'), user('c')]), '<system>Be kind.<user>a<assistant>b<user>c');
  t.equal(await render([user('a'), user('b'), user('c')]), '<user>a\n\nb\n\nc');
  t.equal(await render([user('a'), assistant('b'), assistant('c'), user('d')]), '<user>a<assistant>b\n\nc<user>d');
  t.equal(await render([user('a'), assistant('b'), { role: 'system', content: 'New rules.' }, user('c')]), '<user>a<assistant>b<user>New rules.\n\nc');
  t.equal(await render([user('a'), call('{"x": 1'), { role: 'tool', tool_call_id: 'abcdefghi', content: 'ok' }, user('b')]), '<user>a<assistant>look(arguments={"x": 1)<tool>ok<user>b');
  t.equal(await render([user('a'), call(''), { role: 'tool', tool_call_id: 'abcdefghi', content: 'ok' }, user('b'), user('c')]), '<user>a<assistant>look()<tool>ok<user>b\n\nc');
  t.equal(await render([user('a'), { role: 'tool', tool_call_id: 'nobodys', content: 'ok' }, user('b'), user('c')]), '<user>a\n\nok\n\nb\n\nc');
  t.equal(await render([user('a'), assistant('x'), call('{"x": 1}'), { role: 'tool', tool_call_id: 'abcdefghi', content: 'ok' }, user('c')]), '<user>a<assistant>xlook(x=1)<tool>ok<user>c');
});

t.test('ids of calls that a template refuses become nine letters and digits, by position', async (t) => {
  const [first, second] = [call('{"x": 1}', 'call_0123456789abcdef'), call('{"x": 2}', 'toolu_01')];
  const result = (id: string) => ({ role: 'tool', tool_call_id: id, content: `of ${id.slice(0, 4)}` });
  const chat = [
    { role: 'user', content: 'a' }, { ...first, tool_calls: [...first.tool_calls, ...call('{"x": 3}').tool_calls, ...second.tool_calls] },
    result('toolu_01'), result('call_0123456789abcdef'), result('abcdefghi'),
  ];
  for (const file of ['Mistral-Small-3.2-24B-Instruct-2506.jinja', 'mistralai-Mistral-Nemo-Instruct-2407.jinja']) {
    const prompt = await render(chat, templateOf(file));
    t.same(prompt.match(/call0\d+|abcdefghi/g), ['call00000', 'abcdefghi', 'call00002', 'call00002', 'call00000', 'abcdefghi'], file);
    t.notMatch(prompt, /toolu_01|call_0123/, file);
  }
  const plain = `{% for message in messages %}{% for call in message.tool_calls or [] %}[{{ call.id }}]{% endfor %}{{ message.tool_call_id or '' }}{% endfor %}`;
  t.match(await render(chat, plain), '[call_0123456789abcdef][abcdefghi][toolu_01]toolu_01', 'another template gets them unchanged');
});

t.test('a user right after a result joins it only where the template refuses all else', async (t) => {
  const wantsAnswer = strict.replace('{%- for message in messages %}', `{%- for message in messages %}{%- if message.role == 'user' and not loop.first and messages[loop.index0 - 1].role == 'tool' %}{{ raise_exception('An answer must follow a result') }}{%- endif %}`);
  const chat = [{ role: 'user', content: 'a' }, call('{"x": 1}'), { role: 'tool', tool_call_id: 'abcdefghi', content: 'ok' }, { role: 'user', content: 'b' }, { role: 'user', content: 'c' }];
  t.equal(await render(chat, wantsAnswer), '<user>a<assistant>look(x=1)<tool>ok\n\nb\n\nc');
  t.equal(await render(chat), '<user>a<assistant>look(x=1)<tool>ok<user>b\n\nc');
});

t.test('a template that accepts them gets them unchanged', async (t) => {
  const plain = `{% for message in messages %}{{ '<' + message.role + '>' + message.content }}{% endfor %}`;
  t.equal(await render([{ role: 'user', content: 'a' }, { role: 'user', content: 'b' }, { role: 'system', content: 'c' }], plain), '<user>a<user>b<system>c');
});

t.test('a conversation refused in any form names the first message at fault', async (t) => {
  const picky = `{% for message in messages %}{% if 'bad' in message.content %}{{ raise_exception('no bad words') }}{% endif %}{{ message.content }}{% endfor %}`;
  const messages = ['a', 'b', 'c', 'bad', 'd', 'bad'].map((content, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content }));
  await t.rejects(render(messages, picky), { code: 'invalid_messages', index: 3, message: /no bad words/ });
  await t.rejects(render([{ role: 'user', content: 'bad' }], picky), { code: 'invalid_messages', index: 0 });
});

t.test('every vendored template takes the messages that agents send', async (t) => {
  const agents: Record<string, object[]> = {
    'two users': [{ role: 'user', content: 'FIRST' }, { role: 'user', content: 'SECOND' }],
    'a late system message': [{ role: 'system', content: 'RULES' }, { role: 'user', content: 'FIRST' }, { role: 'assistant', content: 'b' }, { role: 'system', content: 'LATE' }, { role: 'user', content: 'SECOND' }],
    'two answers': [{ role: 'user', content: 'FIRST' }, { role: 'assistant', content: 'b' }, { role: 'assistant', content: 'LATE' }, { role: 'user', content: 'SECOND' }],
  };
  const calls: Record<string, object[]> = {
    'cut off arguments': [{ role: 'user', content: 'FIRST' }, call('{"city": "Par'), { role: 'tool', tool_call_id: 'abcdefghi', content: 'LATE' }, { role: 'user', content: 'SECOND' }],
    'a user after a result': [{ role: 'user', content: 'FIRST' }, call('{"city": "Paris"}'), { role: 'tool', tool_call_id: 'abcdefghi', content: 'LATE' }, { role: 'user', content: 'SECOND' }],
    'a result of no call': [{ role: 'user', content: 'FIRST' }, { role: 'assistant', content: 'b' }, { role: 'tool', tool_call_id: 'nobodysid', content: 'LATE' }, { role: 'user', content: 'SECOND' }],
  };
  const refused: string[] = [];
  for (const file of templateFiles) {
    const template = templateOf(file);
    for (const [name, messages] of [...Object.entries(agents), ...Object.entries(calls)]) {
      try {
        const prompt = await render(messages, template);
        t.ok(prompt.includes('FIRST') && prompt.includes('SECOND'), `${file}, ${name}`);
      } catch (error) {
        const { code, index } = error as { code: string; index?: number };
        refused.push(`${file}, ${name}: ${code} ${index} ${(error as Error).message.split('\n').find((line) => line.includes('Exception')) ?? (error as Error).message.split('\n')[0]}`);
        t.equal(code, 'invalid_messages', `${file}, ${name}`);
        t.type(index, 'number', `${file}, ${name}: ${(error as Error).message}`);
      }
    }
  }
  t.comment(refused.join('\n'));
  t.ok(refused.length < 10, `${refused.length} are refused`);
});
