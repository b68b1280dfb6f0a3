// Chat templates from a model file are limited in time, text and depth, with error messages, and a
// plain chat works after them.
import t from 'tap';
import { readFileSync } from 'node:fs';
import { newCancelFlag } from '#recua/engine/prompts/cancel-flag.js';
import { chatPrompt, loadBuiltin } from '../setup.js';

const rounds = (body: string): string => `{% set ns = namespace(x="a", y=[]) %}{% for i in range(100000) %}${body}{% endfor %}`;
const hostile: [what: string, template: string, why: RegExp, seconds?: number][] = [
  ['loops in loops', '{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}', /allowed time/],
  ['a range without end', '{{ range(1000000000000) | length }}', /range of more than 100000/],
  ['a range of impossible numbers', '{{ range(0, 9223372036854775807, 9223372036854775806) | length }}', /impossible numbers/],
  ['a macro that calls itself', '{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}', /nests too deep/],
  ['a text that doubles', rounds('{% set ns.x = ns.x + ns.x %}'), /more memory/, 30],
  ['a list that doubles', rounds('{% set ns.y = ns.y + ns.y + [1] %}'), /more memory/, 30],
  ['lists that add up', rounds('{% set x = range(99999) | list %}'), /allowed time/],
  ['a repeated text', '{{ "a" * 1000000000 }}', /allowed time|more memory/],
  ['a replacement that grows', rounds('{% set ns.x = ns.x.replace("a", "aaaaaaaaaa") %}'), /more memory|allowed time/],
  ['an indent of gigabytes', '{{ "a" | indent(2000000000) }}', /indents/],
  ['JSON that is indented by gigabytes', '{{ [1] | tojson(indent=2000000000) }}', /indents/],
  ['a list within itself', '{% set x = [] %}{% set y = x.append(x) %}{{ x | tojson }}', /nests too deep/],
  ['a namespace within itself', '{% set ns = namespace() %}{% set ns.a = ns %}{{ ns | tojson }}', /nests too deep/],
  ['tuples in tuples', `{% set ns = namespace(t=(1, 2)) %}${'{% set ns.t = (ns.t, ns.t) %}'.repeat(60)}{{ {ns.t: 1} }}`, /tuples/],
  ['brackets in brackets', `{{ ${'('.repeat(10_000)}1${')'.repeat(10_000)} }}`, /does not compile/],
  ['a long sum', `{{ 1${' + 1'.repeat(50_000)} }}`, /does not compile/],
  ['blocks in blocks', `${'{% if 1 %}'.repeat(5_000)}${'{% endif %}'.repeat(5_000)}`, /does not compile/],
  ['a division by nothing', '{{ 5 is divisibleby(0) }}', /divides by 0/],
  ['a remainder of nothing', '{{ 5 % 0 }}', /divides by 0/],
  ['wide tuples in wide tuples', `{% set a = (${'1, '.repeat(200)}1) %}{% set b = (${'a, '.repeat(200)}a) %}`, /tuples of more than 10000 values/],
  ['a long list searched again and again', '{% set all = range(90000) | list %}{% for i in range(100000) %}{{ "x" in all }}{% endfor %}', /allowed time/],
  ['lists that lose a value while a loop unpacks them', '{% set a = ["x", "y"] %}{% for x, y in [a, a] %}{% set z = a.pop() %}{% endfor %}', /Too few items to unpack/],
  ['a list within itself that is printed', '{% set x = [] %}{% set y = x.append(x) %}{{ x }}', /prints lists within lists/],
  ['a deep list that is printed', `${rounds('{% set ns.y = [ns.y] %}').replaceAll('100000', '5000')}{{ ns.y }}`, /prints lists within lists/, 30],
  ['a list of one list twice, again and again, that is printed', `{% set ns = namespace(y=[1]) %}{% for i in range(60) %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.y }}`, /allowed time|more memory/],
  ['a text of a million parts that is trimmed', '{{ (" " * 1000000) | trim }}', /allowed time/],
  ['marks that have no end', `${'<'.repeat(200_000)}{% for m in messages %}{{ m.content }}{{ m.reasoning_content }}{% endfor %}`, /allowed time/],
  ['a text of megabytes', `{{ messages[0].content }}x${'<>'.repeat(1_000_000)}`, /prints more than 256 KiB for a short question/, 30],
];
/** These end normally, but once crashed the process. */
const sound: [what: string, template: string][] = [
  ['a deep value that goes away', `${rounds('{% set ns.y = [ns.y] %}')}x`],
  ['a deep value of dictionaries', `${rounds('{% set ns.y = {"a": ns.y} %}')}x`],
  ['an order that is none', '{% set ns = namespace(y=[]) %}{% for i in range(500) %}{% set x = ns.y.append("nan" | float) %}{% set x = ns.y.append(i * 7 % 13) %}{% endfor %}{{ ns.y | sort | length }}'],
  ['a slice of the largest steps', '{{ [1, 2, 3][0:3:9223372036854775807] }}{{ "abc"[::-9223372036854775807] }}'],
];

t.test('hostile chat templates terminate, and say why', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const plain = await chatPrompt(model, 'Hi');
  for (const [what, template, why, templateSeconds = 1] of hostile) await t.rejects(chatPrompt(model, 'Hi', { template, templateSeconds }), { message: why }, what);
  for (const [what, template] of sound) t.match(await chatPrompt(model, 'Hi', { template, templateSeconds: 2 }).then(({ prompt }) => prompt, (error: Error) => error.message), /^(x|1000|\[1\]c)$|allowed time/, what);
  t.equal((await chatPrompt(model, 'Hi')).prompt, plain.prompt);
});

t.test('a long conversation stays within the limits of a template', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const messages = JSON.stringify(Array.from({ length: 5_000 }, (_, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content: `Message ${i}. ${'word '.repeat(50)}` })));
  const { prompt } = await chatPrompt(model, '', { messages });
  t.match(prompt, /Message 4998/);
});

t.test('templates that look through all messages for each message take a long chat', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const messages = JSON.stringify(Array.from({ length: 500 }, (_, i) => (i % 2 === 0
    ? { role: 'user', content: `Message ${i}.` }
    : { role: 'assistant', content: `Answer ${i}.` })));
  for (const name of ['google-gemma-4-31B-it', 'openai-gpt-oss-120b', 'deepseek-ai-DeepSeek-V3.2']) {
    const template = readFileSync(new URL(`../../../vendor/llama.cpp/models/templates/${name}.jinja`, import.meta.url), 'utf8');
    t.match((await chatPrompt(model, '', { messages, template })).prompt, /Answer 499/, name);
  }
});

t.test('the error of a template says in one line what is wrong, and where', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  for (const [template, why] of [
    ['{% for %}', /^The chat template does not compile: [^\n]*Unexpected token: %}/],
    ['{{ messages | nofilter }}', /^[^\n]*Unknown \(built-in\) filter 'nofilter' for type Array \(at line 1, column 13\)$/],
  ] as const) await t.rejects(chatPrompt(model, 'Hi', { template }), { message: why });
});

t.test('all renderings of one prompt share its time', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const template = '{% for b in range(5000) %}{% endfor %}{{ messages[0].content }}';
  const takes = (content: string, templateSeconds: number): Promise<boolean> =>
    chatPrompt(model, content, { template, templateSeconds }).then(() => true, ({ message }: Error) => (t.match(message, /allowed time/), false));
  t.ok(await takes('Hi', 30)); // reads the template, which renders it several times
  // The least time that one rendering needs, within a quarter.
  let seconds = 0.001;
  while (!(await takes('Hi', seconds))) seconds *= 1.25;
  // The text of a control token takes two: with it, and with a twin in its place.
  t.notOk(await takes('<|im_end|>', seconds));
  t.ok(await takes('<|im_end|>', 4 * seconds));
});

t.test('a template that takes long can be cancelled', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const cancelled = newCancelFlag();
  const template = '{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}';
  const rendered = chatPrompt(model, 'Hi', { template, cancelled });
  setTimeout(() => { cancelled[0] = 1; }, 50);
  await t.rejects(rendered, { code: 'cancelled' });
});
