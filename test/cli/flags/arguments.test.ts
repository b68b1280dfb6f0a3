import t from 'tap';
import { parseArguments } from '#recua/cli/flags/arguments.js';
import { choice, integer, off, on, real, text } from '#recua/cli/flags/flags.js';
import { settingFlag } from '#recua/cli/flags/setting-flags.js';
import { configSettings } from '#recua/settings/config.js';

const flags = {
  layers: integer(['--gpu-layers', '-ngl'], 'n', '', { fallback: 0, min: -1, max: 100 }),
  grammar: text(['--grammar', '-g'], 'gbnf', ''),
  grammarFile: text(['--grammar-file', '-gf'], 'file', ''),
  maxTokens: integer(['--max-tokens', '-n'], 'n', '', { fallback: 512, min: 1, max: 1000 }),
  temp: real(['--temp'], 'x', '', { fallback: 0.7, min: 0, max: 2 }),
  attention: choice(['--flash-attn'], '', ['auto', 'on', 'off']),
  mmap: off(['--no-mmap'], ''),
  json: on(['--json', '-j'], ''),
};
const read = (...argv: string[]) => parseArguments('run', flags, argv);

t.test('readArguments() returns the defaults if nothing is given', (t) => {
  const { values, operands, given } = read();
  t.strictSame(values, { layers: 0, grammar: '', grammarFile: '', maxTokens: 512, temp: 0.7, attention: 'auto', mmap: true, json: false });
  t.strictSame(operands, []);
  t.equal(given.size, 0);
  t.end();
});

t.test('readArguments() reads flags of several letters, and values that begin with a minus', (t) => {
  t.match(read('-ngl', '5', 'm.gguf'), { values: { layers: 5 }, operands: ['m.gguf'] });
  t.match(read('m.gguf', '-ngl', '-1'), { values: { layers: -1 }, operands: ['m.gguf'] });
  t.match(read('-gf', 'a.gbnf', '-g', 'root ::= "a"', '-n', '7'), { values: { grammarFile: 'a.gbnf', grammar: 'root ::= "a"', maxTokens: 7 } });
  t.match(read('-g', '-x- "=" --y'), { values: { grammar: '-x- "=" --y' } });
  t.end();
});

t.test('readArguments() takes a value after an equals sign or, for a number, right after the letter', (t) => {
  t.match(read('--gpu-layers=-1', '--grammar=a=b', '-n99'), { values: { layers: -1, grammar: 'a=b', maxTokens: 99 } });
  t.match(read('--grammar='), { values: { grammar: '' } });
  t.end();
});

t.test('readArguments() reads switches, and the last value of a repeated flag', (t) => {
  t.match(read('--no-mmap', '-j', '-n', '1', '-n', '2'), { values: { mmap: false, json: true, maxTokens: 2 } });
  t.match(read('--json', '--json'), { values: { json: true } });
  t.end();
});

t.test('an empty key is refused', (t) => {
  for (const empty of ['', ' ']) t.throws(() => settingFlag(configSettings.apiKey).read(empty), { code: 'invalid_usage', message: /a key behind --api-key, got an empty text/ });
  t.throws(() => settingFlag(configSettings.apiKey).read('false'), { code: 'invalid_usage', message: /got false\. A server without keys is one/ });
  t.end();
});

t.test('readArguments() leaves everything after -- and a lone - as operands, as text', (t) => {
  t.strictSame(read('-', '007', '--', '-n', '--json').operands, ['-', '007', '-n', '--json']);
  t.end();
});

const wrong: [string[], RegExp][] = [
  [['-m', 'tiny'], /run has no flag -m: give the model without one, as in recua run <model>/],
  [['-t'], /run has no flag -t\. Did you mean --temp\?/],
  [['--max', '3'], /run has no flag --max\. Did you mean --max-tokens\?/],
  [['--gram', '3'], /run has no flag --gram\. Did you mean --grammar or --grammar-file\?/],
  [['--gpu-layer', '3'], /run has no flag --gpu-layer\. Did you mean --gpu-layers\?/],
  [['--zzzzz'], /no flag --zzzzz\. All of them/],
  [['-ngl5x'], /no flag -ngl5x/],
  [['- an item'], /no flag "- an item"\. .* A text that begins with a dash goes last, after --: recua run … -- <text>$/],
  [['-5'], /after --: recua run … -- <text>$/],
  [['-n'], /needs a value: -n <n>/],
  [['-n', '--json'], /needs a value/],
  [['--json=yes'], /takes no value/],
  [['-n', 'many'], /whole number from 1 to 1000 for --max-tokens, got "many"/],
  [['-n', '1.5'], /whole number/],
  [['-n', ''], /whole number/],
  [['-n', '0x10'], /whole number/],
  [['-n', '1001'], /from 1 to 1000/],
  [['--temp', 'NaN'], /a number from 0 to 2/],
  [['--temp', '1e400'], /a number from 0 to 2/],
  [['--flash-attn', 'maybe'], /one of auto, on, off for --flash-attn, got "maybe"/],
  [['--no-json'], /no flag --no-json/],
  [['--__proto__', 'x'], /no flag/],
];
for (const [argv, expected] of wrong) {
  t.test(`readArguments() refuses ${argv.join(' ')}`, (t) => {
    t.throws(() => read(...argv), { code: 'invalid_usage', message: expected });
    t.end();
  });
}
