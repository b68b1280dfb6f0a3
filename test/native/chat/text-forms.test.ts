// native/chat/text_forms: a prompt has every text of its messages, as text, also where the template
// prints a list of text parts as code, prints only its first part, or leaves out a text beside
// thoughts.
import t from 'tap';
import type { NativeModel } from '#recua/addon/addon.js';
import { chatInput, templateFiles, templateOf, vocabulary, type Message } from './exact-history.js';

let model: NativeModel;
t.before(async () => { model = await vocabulary('qwen2'); });
t.teardown(() => model.close());

const parts = (...texts: string[]) => texts.map((text) => ({ type: 'text', text }));
const render = async (messages: object[], template: string, kind: 'plain' | 'tool' = 'plain') => (await model.applyChatTemplate(chatInput(messages as Message[], template, kind))).prompt;

const call = { id: 'abcdefghi', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Paris"}' } };
const user = { role: 'user', content: 'QUESTION' };
const called = { role: 'assistant', content: null, tool_calls: [call] };
/** A chat of each kind, with some content. */
const chats: Record<string, (content: unknown) => object[]> = {
  system: (content) => [{ role: 'system', content }, user],
  user: (content) => [{ role: 'user', content }],
  assistant: (content) => [user, { role: 'assistant', content }, user],
  caller: (content) => [user, { ...called, content }, { role: 'tool', tool_call_id: 'abcdefghi', name: 'get_weather', content: 'rain' }],
  tool: (content) => [user, called, { role: 'tool', tool_call_id: 'abcdefghi', name: 'get_weather', content }],
};

t.test('every vendored template prints all parts of a message as text', async (t) => {
  let rendered = 0;
  for (const file of templateFiles) {
    const template = templateOf(file);
    for (const [name, chat] of Object.entries(chats)) {
      for (const kind of ['plain', 'tool'] as const) {
        const prompts = await Promise.all(['SEE ONE', parts('SEE ONE'), parts('SEE ONE', ' SEE TWO\n', 'SEE THREE')].map((content) => render(chat(content), template, kind).catch((error: { code: string }) => {
          t.equal(error.code, 'invalid_messages', `${file}, ${name}`);
          return '';
        })));
        const [text, single, several] = prompts as [string, string, string];
        if (!text.includes('SEE ONE')) continue; // some print nothing of tools, or beside a call
        rendered++;
        t.equal(single, text, `${file}, ${name}, ${kind}: one part is like a text`);
        // MiniMax-M1 names each part of a result.
        t.match(several.replaceAll('tool result:', ''), /SEE ONE(\s|\\n)*SEE TWO(\s|\\n)*SEE THREE/, `${file}, ${name}, ${kind}: nothing but blanks between parts`);
      }
    }
  }
  t.ok(rendered > 400, `${rendered} chats`);
});

t.test('every vendored template prints the text beside thoughts', async (t) => {
  let rendered = 0;
  for (const file of templateFiles) {
    for (const name of ['assistant', 'caller'] as const) {
      const [plain, thinking] = await Promise.all([{}, { reasoning_content: 'HM' }].map(async (more) => {
        const messages = chats[name]!('SEE ONE').map((message) => ((message as { role: string }).role === 'assistant' ? { ...message, ...more } : message));
        return await render(messages, templateOf(file)).catch(() => '');
      })) as [string, string];
      if (!plain.includes('SEE ONE') || thinking === '') continue;
      rendered++;
      t.ok(thinking.includes('SEE ONE'), `${file}, ${name}`);
    }
  }
  t.ok(rendered > 80, `${rendered} chats`);
});

t.test('only messages whose form the template does not take are changed', async (t) => {
  const first = `{% for message in messages %}<{{ message.role }}>{% if message.content is string %}{{ message.content | upper }}{% elif message.role == 'user' %}{% for part in message.content %}{{ '' if loop.first else ' + ' }}{{ part.text | upper }}{% endfor %}{% else %}{{ message.content[0].text }}{% endif %}{% endfor %}`;
  const chat = [{ role: 'system', content: parts('a', 'b') }, { role: 'user', content: parts('c', 'd') }, { role: 'assistant', content: parts('e', 'f') }, { role: 'user', content: parts('g', 'h') }];
  t.equal(await render(chat, first), '<system>A\nB<user>C + D<assistant>E\nF<user>G + H');
});

t.test('the beginning of an answer stays as it is', async (t) => {
  const template = templateOf('Qwen-Qwen3-0.6B.jinja');
  const messages = JSON.stringify([user, { role: 'assistant', content: parts('SEE ONE', 'SEE TWO') }]);
  const { prompt, continuation } = await model.applyChatTemplate({ ...chatInput([], template, 'plain'), messages });
  t.match(prompt, /SEE ONE\n\nSEE TWO$/);
  t.ok(continuation);
});
