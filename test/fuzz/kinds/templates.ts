// Chat templates in Jinja, as a model file may contain: generated, with nested loops, recursive
// macros, endless ranges and filters on everything; and vendored ones with edited letters. With
// messages, tools and arguments that a client may send.
import fc from 'fast-check';
import { readFileSync, readdirSync } from 'node:fs';
import { anyText, editedText, textEdits, unchanged, type TextEdit } from '../edits.js';
import { kind, outcomeOf, type Outcome } from '../kind.js';
import { isRefusal, openNative } from './native-subject.js';

interface Case {
  template: string;
  edits: TextEdit[];
  messages: unknown[];
  tools: boolean;
  kwargs: Record<string, unknown>;
}

const folder = new URL('../../../vendor/llama.cpp/models/templates/', import.meta.url);
const vendored = readdirSync(folder).filter((name) => name.endsWith('.jinja')).sort().map((name) => readFileSync(new URL(name, folder), 'utf8'));

const variable = fc.constantFrom('messages', 'message', 'tools', 'x', 'y', 'm', 'loop', 'loop.index', 'loop.previtem', 'self', 'bos_token', 'add_generation_prompt', 'namespace', 'missing', 'kwarg', 'caller', 'raise_exception', 'true', 'none');
const number = fc.constantFrom('0', '1', '-1', '3', '1.5', '9223372036854775807', '-9223372036854775808', '99999999999999999999', '1e308', '1000000000');
const text = fc.constantFrom('"a"', "''", '"é💥"', '"{{"', '"\\n"', '"%s%s"', '"%d"', '"{}"', '"content"', '"role"');
const filter = fc.constantFrom('upper', 'lower', 'trim', 'length', 'first', 'last', 'tojson', 'tojson(indent=100000)', 'tojson(indent=-1)', 'join(", ")', 'join(x)', 'list', 'string', 'int', 'float', 'abs', 'sort', 'reverse', 'unique', 'sum', 'map(attribute="role")', 'map("upper")',
  'select("equalto", 1)', 'selectattr("role", "equalto", "user")', 'rejectattr("content")', 'items', 'dictsort', 'default("x")', 'default(x, true)', 'replace("a", "aa")', 'replace("", "x")', 'indent(1000000000)', 'indent(-5, true)', 'center(1000000)', 'truncate(3)', 'round(2)', 'batch(0)', 'slice(0)', 'safe', 'e', 'capitalize', 'title', 'format(1, 2)', 'groupby("role")', 'wordcount', 'pprint', 'random', 'min', 'max', 'missing', 'attr("x")', 'count');
const test = fc.constantFrom('defined', 'string', 'mapping', 'iterable', 'none', 'number', 'sequence', 'true', 'divisibleby(0)', 'in [1]', 'equalto(x)', 'missing', 'not defined', 'callable', 'undefined');
const operator = fc.constantFrom('+', '-', '*', '/', '//', '%', '**', '~', '==', '!=', '<', '>=', 'and', 'or', 'in', 'not in');
const method = fc.constantFrom('.split("")', '.split(",")', '.strip()', '.startswith("a")', '.items()', '.keys()', '.get("x")', '.append(x)', '.pop()', '.replace("a", "aaaa")', '.format(1)', '.upper()', '[0]', '[-1]', '[::-1]', '[::0]', '[1:9223372036854775807:-1]', '["role"]', '.role', '.content', '[x]', '.update(x)', '.join(messages)', '.count("a")', '.missing()', '.insert(99999999, 1)', '.rsplit("a", -1)');

const { block } = fc.letrec<{ expression: string; statement: string; block: string }>((tie) => ({
  expression: fc.oneof({ depthSize: 'small', withCrossShrink: true }, variable, number, text,
    fc.tuple(tie('expression'), operator, tie('expression')).map((parts) => `(${parts.join(' ')})`), fc.tuple(tie('expression'), filter).map((parts) => parts.join(' | ')), fc.tuple(tie('expression'), test).map((parts) => `(${parts.join(' is ')})`),
    fc.tuple(tie('expression'), method).map((parts) => parts.join('')), fc.array(tie('expression'), { maxLength: 3 }).map((items) => `[${items.join(', ')}]`), fc.tuple(text, tie('expression')).map((parts) => `{${parts.join(': ')}}`),
    fc.tuple(fc.constantFrom('range', 'namespace', 'dict', 'm', 'raise_exception', 'strftime_now', 'lipsum', 'cycler', 'joiner'), fc.array(tie('expression'), { maxLength: 3 })).map(([name, values]) => `${name}(${values.join(', ')})`),
    fc.tuple(tie('expression'), tie('expression'), tie('expression')).map(([a, b, c]) => `(${a} if ${b} else ${c})`), fc.constantFrom('range(1000000000)', 'range(0, 9223372036854775807, 1)', 'range(0, 10, 0)', 'range(-1, -1000000000, -1)', '"a" * 1000000000', '[0] * 1000000000', 'range(5)')),
  statement: fc.oneof({ depthSize: 'small', withCrossShrink: true }, tie('expression').map((one) => `{{ ${one} }}`), fc.constantFrom('text', '{# words #}', '{% raw %}{{{% endraw %}', '{%- break %}', '{% continue %}', '{% generation %}x{% endgeneration %}'),
    fc.tuple(fc.constantFrom('x', 'y', 'message', 'x, y', 'messages', 'ns.a', 'loop'), tie('expression')).map(([name, one]) => `{% set ${name} = ${one} %}`),
    fc.tuple(tie('expression'), tie('block'), tie('block')).map(([one, a, b]) => `{% if ${one} %}${a}{% elif x %}${b}{% else %}${a}{% endif %}`),
    fc.tuple(fc.constantFrom('x', 'message', 'x, y', 'messages'), tie('expression'), fc.constantFrom('', '', ' if x', ' recursive'), tie('block')).map(([name, one, more, inner]) => `{% for ${name} in ${one}${more} %}${inner}{% endfor %}`),
    tie('block').map((inner) => `{% set x %}${inner}{% endset %}`), fc.tuple(filter, tie('block')).map(([name, inner]) => `{% filter ${name} %}${inner}{% endfilter %}`),
    tie('block').map((inner) => `{% macro m(x, y=1) %}${inner}{{ m(x) }}{% endmacro %}{{ m(1) }}`), tie('block').map((inner) => `{% macro m(x) %}${inner}{{ caller() }}{% endmacro %}{% call m(1) %}${inner}{% endcall %}`)),
  block: fc.array(tie('statement'), { maxLength: 4 }).map((all) => all.join('')),
}));

/** Short texts that grow with each round. */
const growing = fc.constantFrom(
  '{% set ns = namespace(x="a") %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}',
  '{% set ns = namespace(x=["a"]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}',
  '{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}{% endfor %}{% endfor %}{% endfor %}',
  '{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}aaaaaaaaaa{% endfor %}{% endfor %}{% endfor %}',
  '{% macro m(x) %}{{ m(x) }}{{ m(x) }}{% endmacro %}{{ m(1) }}', '{% macro m(x) %}{{ m(x + 1) if x < 30 }}{{ m(x + 1) if x < 30 }}{% endmacro %}{{ m(0) }}',
  '{% for x in messages %}{{ messages.append(x) }}{% endfor %}', '{{ range(100000000) | list | length }}', '{{ range(3000000) | map("string") | join("x") }}',
  '{% set x = [] %}{{ x.append(x) }}{{ x | tojson }}', '{% set ns = namespace() %}{% set ns.a = ns %}{{ ns | tojson }}', '{% set x = "a" %}{{ x.replace("", "aaaaaaaaaa").replace("", "aaaaaaaaaa").replace("a", "aaaaaaaaaa").replace("a", "aaaaaaaaaaaaaaaaaaaaaaaaaaa") }}',
  '{% set x = {} %}{% set y = {"x": x} %}{{ x.update(y) }}{{ x | tojson }}{{ x == y }}', `{{ ${'('.repeat(20_000)}1${')'.repeat(20_000)} }}`, `{{ ${'['.repeat(20_000)}${']'.repeat(20_000)} }}`, `{{ ${'not '.repeat(50_000)}1 }}`, `{{ 1${' + 1'.repeat(50_000)} }}`, `{{ ${'-'.repeat(50_000)}1 }}`,
  `{{ x${'.a'.repeat(50_000)} }}`, `{{ x${' | upper'.repeat(50_000)} }}`, `${'{% if 1 %}'.repeat(20_000)}${'{% endif %}'.repeat(20_000)}`, `${'{% for x in [1] %}'.repeat(20_000)}${'{% endfor %}'.repeat(20_000)}`, `{{ 1${' if 1 else 1'.repeat(20_000)} }}`, '{{ "a" | indent(2000000000) }}', '{{ "%999999999d" | format(1) }}',
);

const sharpWords = ['{{', '}}', '{%', '%}', '{#', '-%}', '{%-', ' | ', '(', ')', '"', "'", 'endfor', 'range(1000000000)', '[0]', '.x', '\u0000', '\ud800', ' * 1000000000', 'messages', 'not ', '~', '**'];
const message = fc.record({ role: fc.constantFrom('user', 'system', 'assistant', 'tool', 'x'), content: fc.oneof(fc.constantFrom<unknown>('Hello', '', null, '{{ 1 }}', '<|im_end|>', [{ type: 'text', text: 'Hi' }]), anyText(12)) });

export default kind<Case>({
  cases: fc.record({
    template: fc.oneof({ weight: 60, arbitrary: block.map((inner) => `{% for message in messages %}{{ message.content }}${inner}{% endfor %}`) }, { weight: 35, arbitrary: block }, { weight: 1, arbitrary: growing }, { weight: 4, arbitrary: fc.constantFrom(...vendored) }),
    edits: fc.oneof({ weight: 2, arbitrary: unchanged }, textEdits(sharpWords)),
    messages: fc.array(message, { minLength: 1, maxLength: 3 }), tools: fc.boolean(), kwargs: fc.dictionary(fc.constantFrom('kwarg', 'enable_thinking', 'x', '__proto__'), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 2 }),
  }),
  few: 100, mostMs: 60_000, mostMib: 1_500,
  async open() {
    const subject = await openNative();
    const tools = JSON.stringify([{ type: 'function', function: { name: 'f', description: 'd', parameters: { type: 'object', properties: { a: { type: 'string' } } } } }]);
    return {
      async take({ template, edits, messages, tools: has, kwargs }): Promise<Outcome> {
        try {
          await subject.model.applyChatTemplate({
            messages: JSON.stringify(messages), tools: has ? tools : '', toolChoice: 'auto', jsonSchema: '', grammar: '', addGenerationPrompt: true, enableThinking: true,
            templateSeconds: 1, templateKwargs: Object.fromEntries(Object.entries(kwargs).map(([key, value]) => [key, JSON.stringify(value)])), template: editedText(template, edits) || ' ',
          });
          return 'accepted';
        } catch (thrown) {
          return outcomeOf(thrown, isRefusal);
        }
      },
      close: () => subject.close(),
    };
  },
});
