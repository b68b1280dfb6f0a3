// native/chat/message_parts: a message in several text parts is in the prompt with all of them,
// also where the template prints only the first one.
import t from 'tap';
import type { NativeModel } from '#recua/addon/addon.js';
import { chatInput, templateFiles, templateOf, vocabulary, type Message } from './exact-history.js';

let model: NativeModel;
t.before(async () => { model = await vocabulary('qwen2'); });
t.teardown(() => model.close());

const parts = (...texts: string[]) => texts.map((text) => ({ type: 'text', text }));
const render = async (messages: object[], template: string) => (await model.applyChatTemplate(chatInput(messages as Message[], template, 'plain'))).prompt;

t.test('every vendored template prints all parts of every message', async (t) => {
  const called = { role: 'assistant', content: null, tool_calls: [{ id: 'abcdefghi', type: 'function', function: { name: 'look', arguments: '{"at":"it"}' } }] };
  const system = { role: 'system', content: parts('RULE ONE', 'RULE TWO') };
  const user = { role: 'user', content: parts('ASK ONE', 'ASK TWO') };
  const chats: Record<string, object[]> = {
    system: [system, user],
    assistant: [user, { role: 'assistant', content: parts('SAY ONE', 'SAY TWO') }, { role: 'user', content: 'ASK THREE' }],
    tool: [user, called, { role: 'tool', tool_call_id: 'abcdefghi', name: 'look', content: parts('SEE ONE', ' SEE TWO\n', 'SEE THREE') }],
  };
  let rendered = 0;
  for (const file of templateFiles) {
    for (const [name, messages] of Object.entries(chats)) {
      const prompt = await render(messages, templateOf(file)).catch((error: { code: string }) => {
        t.equal(error.code, 'invalid_messages', `${file}, ${name}`);
        return undefined;
      });
      if (prompt === undefined) continue;
      rendered++;
      // Two old templates print nothing of tools.
      const texts = JSON.stringify(messages).match(name === 'tool' && !prompt.includes('SEE') ? /ASK \w+/g : /[A-Z]+ (ONE|TWO|THREE)/g) ?? [];
      t.same(texts.filter((text) => !prompt.includes(text)), [], `${file}, ${name}: no part is missing`);
    }
  }
  t.ok(rendered > 120, `${rendered} prompts`);
});

t.test('only messages of the role that loses parts are joined', async (t) => {
  const first = `{% for message in messages %}<{{ message.role }}>{% if message.role == 'user' %}{% for part in message.content %}[{{ part.text }}]{% endfor %}{% else %}{{ message.content[0].text if message.content is not string else message.content }}{% endif %}{% endfor %}`;
  const chat = [{ role: 'system', content: parts('a', 'b') }, { role: 'user', content: parts('c', 'd') }, { role: 'assistant', content: parts('e', 'f') }, { role: 'user', content: parts('g', 'h') }];
  t.equal(await render(chat, first), '<system>a\nb<user>[c][d]<assistant>e\nf<user>[g][h]');
});

t.test('a template that prints parts in its own way is left alone', async (t) => {
  const loud = `{% for message in messages %}<{{ message.role }}>{% if message.content is string %}{{ message.content | upper }}{% else %}{% for part in message.content %}[{{ part.text | upper }}]{% endfor %}{% endif %}{% endfor %}`;
  t.equal(await render([{ role: 'user', content: parts('a', 'b') }], loud), '<user>[A][B]');
});

t.test('parts of one role are shown also if those of another stay out', async (t) => {
  const rules = `{% for message in messages %}<{{ message.role }}>{% if message.role == 'assistant' %}{{ (message.content if message.content is string else message.content[0].text).split('</think>')[-1] }}{% else %}{{ message.content if message.content is string else message.content[0].text }}{% endif %}{% endfor %}`;
  const chat = [{ role: 'system', content: parts('a', 'b') }, { role: 'user', content: 'c' }, { role: 'assistant', content: parts('<think>d</think>', 'e') }, { role: 'user', content: 'f' }];
  t.equal(await render(chat.slice(0, 2), rules), '<system>a\nb<user>c');
  t.equal(await render(chat, rules), '<system>a\nb<user>c<assistant>\ne<user>f');
});

t.test('parts that repeat themselves take no longer to find', async (t) => {
  const chat = [{ role: 'user', content: 'a'.repeat(800_000) }, { role: 'assistant', content: 'b' }, { role: 'user', content: parts(`${'a'.repeat(400_000)}c`, 'd') }];
  const started = performance.now();
  t.match(await render(chat, templateOf('Qwen-Qwen3-0.6B.jinja')), /a{100}cd?/);
  t.ok(performance.now() - started < 10_000, 'within seconds');
});
