// No text of an answer is lost or given twice when it ends within what its parser takes for a tool
// call or the beginning of a mark.
import { readdirSync, readFileSync } from 'node:fs';
import t from 'tap';
import { newCancelFlag } from '#recua/engine/prompts/cancel-flag.js';
import { prepareChat } from '#recua/engine/prompts/chat.js';
import { WholeAnswer } from '#recua/engine/whole-answer.js';
import { loadBuiltin } from '../../native/setup.js';
import { chat } from '../requests.js';

const templates = new URL('../../../vendor/llama.cpp/models/templates/', import.meta.url);
const tools = JSON.stringify([{ type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }]);

t.test('an answer that continues a text with the mark of a call is given', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const messages = JSON.stringify([{ role: 'user', content: 'Hello' }, { role: 'assistant', content: 'The tag <tool_call> begins' }]);
  for (const name of ['Qwen3-Coder', 'Qwen3.5-4B', 'Qwen-Qwen3-0.6B']) {
    const template = readFileSync(new URL(`${name}.jinja`, templates), 'utf8');
    const { parser, sampler } = await prepareChat({ model, contextSize: 100_000, cancelled: newCancelFlag(), guesses: false }, template, chat('', { messages, tools }));
    const { delta, finishReason, warnings } = parser.end(' a call.', 'stop', false);
    sampler.close();
    t.equal(delta?.content, ' a call.', name);
    t.equal(finishReason, 'stop', name);
    t.strictSame(warnings.map((text) => text.replace(/;.*/, '')), name.startsWith('Qwen3') ? ['The answer ended within a tool call'] : [], name);
  }
});

t.test('thoughts that begin in the prompt are not given again as content', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  for (const name of ['deepseek-ai-DeepSeek-R1-Distill-Qwen-32B', 'llama-cpp-deepseek-r1', 'Apriel-1.6-15b-Thinker-fixed']) {
    const template = readFileSync(new URL(`${name}.jinja`, templates), 'utf8');
    for (const cut of [true, false]) {
      const { parser, sampler } = await prepareChat({ model, contextSize: 100_000, cancelled: newCancelFlag(), guesses: false }, template, chat('Hello', { tools }));
      const { delta, warnings } = parser.end('They greet me.', cut ? 'length' : 'stop', cut);
      sampler.close();
      t.match(delta?.reasoning, /They greet me\.$/, name);
      t.equal(delta?.content, undefined, name);
      t.strictSame(warnings, [], name);
    }
  }
});

t.test('an answer that ends with the beginning of a mark is given as a whole', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const files = readdirSync(templates).filter((name) => name.endsWith('.jinja'));
  let read = 0;
  for (const name of files) {
    const template = readFileSync(new URL(name, templates), 'utf8');
    for (const given of [tools, '']) {
      const preparing = { model, contextSize: 100_000, cancelled: newCancelFlag(), guesses: false };
      const answer = async (text: string, cut: boolean) => {
        const { parser, sampler } = await prepareChat(preparing, template, chat('Hello', { tools: given, enableThinking: false }));
        const { delta, warnings } = parser.end(text, 'stop', cut);
        sampler.close();
        return { text: (delta?.reasoning ?? '') + (delta?.content ?? ''), warnings };
      };
      // Some name who an answer is for.
      const head = name === 'meetkai-functionary-medium-v3.2.jinja' ? 'all\n' : '';
      const whole = await answer(`${head}Sure.`, false).catch(() => undefined);
      if (!whole?.text.endsWith('Sure.') || whole.warnings.length > 0) continue; // not a conversation or an answer for this template
      read++;
      for (const end of ['<', '<t', '[', '>', '`', 'f', '<|', ' <']) {
        for (const cut of [true, false]) {
          t.strictSame(await answer(`${head}Sure.${end}`, cut), { text: `${whole.text}${end}`, warnings: [] }, `${name}: ${end}`);
        }
      }
      t.strictSame(await answer(`${head}Sure.\n`, false).then(({ text }) => text.trimEnd()), whole.text, `${name}: blanks`);
    }
  }
  t.ok(read > 100, `${read} parsers`);
});

t.test('where calls have no mark, only a whole one is given, and no text is lost', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const preparing = { model, contextSize: 100_000, cancelled: newCancelFlag(), guesses: false };
  const offered = JSON.stringify([{ type: 'function', function: { name: 'look', parameters: { type: 'object', properties: { a: { type: 'string' } } } } }]);
  const whole = '{"name": "look", "parameters": {"a": "x"}}';
  const texts = [
    `A call looks like this: ${whole} and the reply follows.`, '{"name": "look", "arguments": {"a": "x"}}', '{"name": "look", "parameters": {"a": 5}}', whole,
    'I would use {"name": "look", "a": 1} for that. Here is why.', `${whole}; ${whole}`, whole.slice(0, -4), '{"name": "look", "parameters": {}}', '{"name": "look"}',
  ];
  for (const name of ['meta-llama-Llama-3.1-8B-Instruct', 'meta-llama-Llama-3.3-70B-Instruct']) {
    const template = readFileSync(new URL(`${name}.jinja`, templates), 'utf8');
    for (const text of texts) {
      const said = async (pieces: number) => {
        const { parser, sampler } = await prepareChat(preparing, template, chat('Hi', { tools: offered, enableThinking: false }));
        const answer = new WholeAnswer();
        for (let at = pieces; at < text.length; at += pieces) answer.add(structuredClone(parser.push(text.slice(0, at), true) ?? {}));
        const { delta, finishReason, warnings } = parser.end(text, 'stop', false);
        answer.add(delta ?? {});
        sampler.close();
        const indexes = (delta?.toolCalls ?? []).map(({ index }) => index);
        t.equal(new Set(indexes).size, indexes.length, 'one entry for each call');
        const { content, toolCalls } = answer;
        return { content, calls: toolCalls.map((call) => [call.name, JSON.parse(call.arguments) as unknown]), finishReason, warnings };
      };
      const [slowly, atOnce] = [await said(1), await said(text.length)];
      t.strictSame(slowly, atOnce, `${name}: ${text}`);
      t.equal(slowly.calls.length > 0, slowly.finishReason === 'tool_calls');
      if (slowly.calls.length === 0) t.equal(slowly.content, text);
    }
  }
});
