// Thinking that ends on request, and goes on in another sampler after a crash.
import t from 'tap';
import type { NativeContext, NativeSampler } from '#recua/addon/addon.js';
import { chatPrompt, contextOptions, generate, loadBuiltin } from '../setup.js';

const template = `{% for m in messages %}{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>
{% endif %}{{ m.content }}
{% endfor %}{% if add_generation_prompt %}<think>
{% endif %}`;

const model = await loadBuiltin();
t.teardown(() => model.close());
const { prompt, shape } = await chatPrompt(model, 'Tell me a story', { template });
const tokens = await model.tokenize(prompt, true, true);
const thinking = (thinkingMessage = ' Enough thoughts.'): Promise<NativeSampler> =>
  model.createSampler({ temperature: 0, ignoreEos: true, shape, thinkingControl: true, thinkingMessage }, tokens);

t.test('an end on request continues in another sampler where it stopped', async (t) => {
  const context: NativeContext = await model.createContext(contextOptions());
  t.teardown(() => context.close());
  const sampler = await thinking();
  const thoughts = await generate(context, sampler, tokens, 4);
  sampler.endThinking();
  const rest = await generate(context, sampler, Int32Array.of(thoughts.at(-1)!), 24, 0, tokens.length + 3);
  const all = [...thoughts, ...rest];
  const text = Buffer.from(await model.detokenize(Int32Array.from(rest), false)).toString();
  t.match(text, /^ Enough thoughts\.<\/think>/);
  for (let count = thoughts.length; count < all.length - 1; count++) {
    const next = await thinking();
    await next.resume(Int32Array.from(all.slice(0, count)), 0);
    next.endThinking();
    await context.removeSequence(0, tokens.length + count - 1, -1);
    const more = await generate(context, next, Int32Array.of(all[count - 1]!), all.length - count, 0, tokens.length + count - 1);
    t.same(more, all.slice(count), `after ${count - thoughts.length} tokens of the end`);
  }
});

t.test('a message that brings its own closing tag has only one', async (t) => {
  const context: NativeContext = await model.createContext(contextOptions());
  t.teardown(() => context.close());
  const sampler = await thinking(' Enough.\n</think>\n\nMore');
  const thoughts = await generate(context, sampler, tokens, 4);
  sampler.endThinking();
  const rest = await generate(context, sampler, Int32Array.of(thoughts.at(-1)!), 24, 0, tokens.length + 3);
  const text = Buffer.from(await model.detokenize(Int32Array.from(rest), false)).toString();
  t.match(text, /^ Enough\.\n<\/think>/);
  t.equal(text.split('</think>').length, 2);
});
