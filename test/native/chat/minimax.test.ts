// MiniMax M3, whose calls write each item of a list between tags: a list has as many items as its
// schema says.
import t from 'tap';
import { loadBuiltin } from '../setup.js';
import { chatInput, templateOf } from './exact-history.js';

t.test('a list in a call keeps to minItems and maxItems', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const parameters = { type: 'object', properties: { all: { type: 'array', items: { type: 'integer' }, minItems: 2, maxItems: 3 } }, required: ['all'] };
  const tools = JSON.stringify([{ type: 'function', function: { name: 'add', parameters } }]);
  const input = chatInput([{ role: 'user', content: 'Hi' }], templateOf('MiniMax-M3.jinja'), 'tool', { tools, toolChoice: 'required' });
  const mark = ']<]minimax[>[';
  for (const [count, allowed] of [[1, false], [2, true], [3, true], [4, false]] as const) {
    const { made } = await model.prepareChat(
      { ...input, contextSize: 100_000, strict: Int32Array.of(0), parseToolCalls: true },
      { temperature: 0 },
    );
    const items = `${mark}<item>1${mark}</item>`.repeat(count);
    const text = `${mark}<tool_call>${mark}<invoke name="add">${mark}<all>${items}${mark}</all>${mark}</invoke>${mark}</tool_call>`;
    const taken = await made!.sampler.resume(await model.tokenize(text, false, true), 0).then(() => true, () => false);
    t.equal(taken, allowed, `${count} items`);
    made!.sampler.close();
    made!.parser.close();
  }
});
