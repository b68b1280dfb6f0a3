// Chat templates from a model file are limited in steps, text and depth, with error messages, and a
// plain chat works after them.
import t from 'tap';
import { chatPrompt, loadBuiltin } from '../setup.js';

const rounds = (body: string): string => `{% set ns = namespace(x="a", y=[]) %}{% for i in range(100000) %}${body}{% endfor %}`;
const hostile: [what: string, template: string, why: RegExp][] = [
  ['loops in loops', '{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}', /steps/],
  ['a range without end', '{{ range(1000000000000) | length }}', /range of more than 100000/],
  ['a range of impossible numbers', '{{ range(0, 9223372036854775807, 9223372036854775806) | length }}', /impossible numbers/],
  ['a macro that calls itself', '{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}', /nests too deep/],
  ['a text that doubles', rounds('{% set ns.x = ns.x + ns.x %}'), /more text/],
  ['a list that doubles', rounds('{% set ns.y = ns.y + ns.y + [1] %}'), /steps/],
  ['a repeated text', '{{ "a" * 1000000000 }}', /steps|more text/],
  ['a replacement that grows', rounds('{% set ns.x = ns.x.replace("a", "aaaaaaaaaa") %}'), /more text|steps/],
  ['an indent of gigabytes', '{{ "a" | indent(2000000000) }}', /indents/],
  ['JSON that is indented by gigabytes', '{{ [1] | tojson(indent=2000000000) }}', /indents/],
  ['a list within itself', '{% set x = [] %}{% set y = x.append(x) %}{{ x | tojson }}', /nests too deep/],
  ['a namespace within itself', '{% set ns = namespace() %}{% set ns.a = ns %}{{ ns | tojson }}', /nests too deep/],
  ['tuples in tuples', `{% set ns = namespace(t=(1, 2)) %}${'{% set ns.t = (ns.t, ns.t) %}'.repeat(60)}{{ {ns.t: 1} }}`, /tuples/],
  ['brackets in brackets', `{{ ${'('.repeat(10_000)}1${')'.repeat(10_000)} }}`, /does not compile/],
  ['a long sum', `{{ 1${' + 1'.repeat(50_000)} }}`, /does not compile/],
  ['blocks in blocks', `${'{% if 1 %}'.repeat(5_000)}${'{% endif %}'.repeat(5_000)}`, /does not compile/],
  ['a division by nothing', '{{ 5 is divisibleby(0) }}', /divides by 0/],
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
  for (const [what, template, why] of hostile) await t.rejects(chatPrompt(model, 'Hi', { template }), { message: why }, what);
  for (const [what, template] of sound) t.match(await chatPrompt(model, 'Hi', { template }).then(({ prompt }) => prompt, (error: Error) => error.message), /^(x|1000|1c)$|steps/, what);
  t.equal((await chatPrompt(model, 'Hi')).prompt, plain.prompt);
});

t.test('a long conversation stays within the limits of a template', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const messages = JSON.stringify(Array.from({ length: 5_000 }, (_, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content: `Message ${i}. ${'word '.repeat(50)}` })));
  const { prompt } = await chatPrompt(model, '', { messages });
  t.match(prompt, /Message 4998/);
});
