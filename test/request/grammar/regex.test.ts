// Regular expressions → GBNF: the same texts as in JavaScript, in both spellings. Expressions that
// are not regular are refused with their place, and each takes a bounded number of steps.
import t from 'tap';
import type { RecuaError } from '#recua/errors.js';
import { writeRules } from '#recua/request/grammar/gbnf.js';
import { choiceConstraint, regexConstraint, regexTree } from '#recua/request/grammar/constraint.js';
import { Budget, invalid } from '#recua/request/grammar/tree.js';
import { GbnfMatcher } from '../../native/gbnf-matcher.js';

const language = (regex: string, spelling: 'plain' | 'json' = 'plain') => {
  const budget = new Budget((why) => invalid('regex', why));
  return new GbnfMatcher(writeRules([regexTree(regex, 'regex', budget)], 'root', spelling, budget));
};

const texts = [
  '', 'a', 'b', 'ab', 'abc', 'aab', 'abab', 'AB', 'aB', 'x1', '12', '123', '1.5', '-7', 'a b', ' ', '\t', '\n', 'a\nb', 'é', 'ß', 'Ω',
  '😀', 'a-b', '[a]', '{"a": 1}', 'a"b', 'a\\b', '(x)', 'a|b', '^$', '2024-01-31', 'foo@bar.org', 'aaa', 'aaaa', 'aaaaa', ']', '-', '^', '日本',
];

t.test('a regular expression accepts the whole texts that JavaScript accepts', async (t) => {
  const same = [
    'a*', 'a+b?', '(a|b)*', '(?:ab){2}', 'a{2,4}', 'a{3,}', '[a-c]+', '[^a-c]+', '\\d+', '\\w+', '\\s', '\\S+', '\\D', '\\W', '.', '.*', '\\.',
    '(?<year>\\d{4})-\\d{2}-\\d{2}', '[\\w.]+@[\\w.]+', '^abc$', '^a|b$', '(^a)b', '^(?:a|ab)$', 'a*?b', '[\\]\\-^]', '[a\\-b]+', '\\[a\\]', 'a\\|b',
    '\\u00e9', '\\x61', '[\\s\\S]*', '\\p{L}+', '\\p{Script=Han}+', '\\P{L}+', '[\\p{Lu}\\d]+', '\\{"a": \\d\\}', 'a"b', 'a\\\\b', '-?\\d+(\\.\\d+)?', '',
    '(a|b|)(c|)', '((a)(b))?', '[^\\n]*', '(?:)', 'a{0}', 'a{0}b', 'a{0000000002}', '(?:a{2}){2}', '[-]', '\\$\\^|\\^\\$', '\\cJ', '\\t|\\n',
  ];
  for (const source of same) {
    if (source === '') continue;
    const regex = new RegExp(`^(?:${source})$`, 'u');
    for (const [spelling, write] of [['plain', (text: string) => text], ['json', (text: string) => JSON.stringify(text).slice(1, -1)]] as const) {
      const made = language(source, spelling);
      for (const text of texts) {
        // Our dot matches everything except the line feed.
        const expected = source.includes('.') && /\r|\u2028|\u2029/.test(text) ? undefined : regex.test(text);
        if (expected !== undefined) t.equal(made.matches(write(text)), expected, `${JSON.stringify(text)} by ${source}, ${spelling}`);
      }
    }
  }
});

t.test('syntax from other dialects of regular expressions works', async (t) => {
  const cases: [string, string[], string[]][] = [
    ['(?i)Yes|no', ['YES', 'yes', 'nO'], ['maybe']],
    ['(?i:y)es', ['Yes', 'yes'], ['YES']],
    ['a(?i)b', ['ab', 'aB'], ['Ab']],
    ['(?s).+', ['a\nb'], ['']],
    ['(?P<digit>\\d)x', ['1x'], ['x']],
    ['\\Aabc\\z', ['abc'], ['abcd']],
    ['[[:alpha:]]+[[:^digit:]]', ['ab', 'a-'], ['a1']],
    ['{"a": \\d+}', ['{"a": 12}'], ['{"a": }']],
    ['a(?#why)b', ['ab'], ['a']],
    ['\\x{1F600}|\\U0001F601|\\u{1F602}', ['😀', '😁', '😂'], ['😃']],
    ['[^a-z]', ['A', 'é'], ['b', '']],
    ['(?i)[^a]', ['b'], ['a', 'A']],
    ['\\ud83d\\ude00', ['😀'], []],
    ['.', ['\r', 'é'], ['\n']],
  ];
  for (const [source, yes, no] of cases) {
    const made = language(source);
    for (const text of yes) t.ok(made.matches(text), `${JSON.stringify(text)} by ${source}`);
    for (const text of no) t.notOk(made.matches(text), `${JSON.stringify(text)} by ${source}`);
  }
});

t.test('an expression that is not regular, or invalid, is refused with its place', async (t) => {
  const refused: [string, number, RegExp][] = [
    ['ab(?=c)', 3, /looks ahead/], ['(?!a)b', 1, /looks ahead/], ['(?<=a)b', 1, /looks behind/], ['(?<!a)b', 1, /looks behind/],
    ['(a)\\1', 4, /refers back/], ['(?<n>a)\\k<n>', 8, /refers back/], ['(?P<n>a)(?P=n)', 9, /refers back/], ['a\\bb', 2, /edge of a word/],
    ['(', 1, /not closed/], ['a)', 2, /not opened/], ['[a', 1, /not closed/], ['*a', 1, /nothing to repeat/], ['a**', 3, /nothing to repeat/],
    ['a{3,1}', 2, /at least 3 and at most 1/], ['[b-a]', 3, /ends before it begins/], ['\\p{Nope}', 1, /no property Nope/], ['a++', 3, /possessive/],
    ['(?>a)', 1, /atomic/], ['a^b', 2, /edges only/], ['(a$)b', 3, /edges only/], ['(?x)a', 1, /flag x/], ['\\', 1, /backslash/], ['\\y', 1, /unknown escape/],
    ['a{999999}', 2, /over 100000 times/], ['a{1234567890}', 2, /over 100000 times/], [`a{0,${'9'.repeat(400)}}`, 2, /over 100000 times/], ['a{2}{3}', 5, /nothing to repeat/],
    ['a*{2}', 3, /nothing to repeat/], ['a{2}?{3}', 6, /nothing to repeat/], ['{2}a', 1, /nothing to repeat/], ['(?:{1,2})', 4, /nothing to repeat/], ['a|{,3}', 3, /nothing to repeat/], ['[]', 1, /empty/], ['[a&&b]', 3, /operation/], ['\\ud83d', 1, /surrogate/], ['(^a)*', 2, /edges only/],
  ];
  for (const [source, place, why] of refused) {
    t.throws(() => regexConstraint(source, 'guided_regex'), { code: 'invalid_grammar', param: 'guided_regex', message: new RegExp(`at character ${place}\\b.*${why.source}`) }, source);
  }
  for (const wrong of [5, {}, '', 'a'.repeat(70_000)]) t.throws(() => regexConstraint(wrong, 'regex'), { message: /regex/, param: 'regex' });
});

t.test('every expression takes a bounded number of steps', async (t) => {
  const hostile = [
    '('.repeat(30_000), `a{${'1'.repeat(60_000)}`, `${'('.repeat(99)}a${')'.repeat(99)}`.repeat(300), '(a*)*'.repeat(9_000), '[a-z]'.repeat(13_000), '\\p{L}'.repeat(9_000),
    '(?i)'.concat('\\p{L}'.repeat(9_000)), '\\P{L}'.repeat(9_000), `[${'\\W'.repeat(30_000)}]`, '((((a{99999}){99999}){99999}){99999})', 'a{99999}'.repeat(8_000),
    `[${'\\p{L}'.repeat(9_000)}]`, 'a|'.repeat(30_000), '(?i)'.repeat(10_000), Array.from({ length: 900 }, (_, i) => `\\p{Script=${i}}`).join(''),
    'Adlm Aghb Ahom Arab Armi Armn Avst Bali Bamu Bass Batk Beng Bhks Bopo Brah Brai Bugi Buhd Cakm Cans'.split(' ').map((name) => `\\p{scx=${name}}`).join(''),
  ];
  for (const source of hostile) {
    const startMs = performance.now();
    try {
      regexConstraint(source, 'regex');
    } catch (error) {
      t.equal((error as RecuaError).code, 'invalid_grammar');
    }
    t.comment(`${source.slice(0, 30)}: ${Math.round(performance.now() - startMs)} ms`);
  }
});

t.test('a choice is one of its texts, whatever they contain', async (t) => {
  const choices = ['yes', 'no"', 'a\\b', 'line\nfeed', '😀', 'ß'];
  const made = choiceConstraint(choices, 'choice');
  t.equal(made.kind, 'grammar');
  const matcher = new GbnfMatcher((made as { grammar: string }).grammar);
  for (const text of choices) t.ok(matcher.matches(text), text);
  for (const text of ['', 'ye', 'no', 'line']) t.notOk(matcher.matches(text), text);
  for (const wrong of ['yes', [], [5], [''], {}, Array.from({ length: 10_001 }, () => 'x')]) t.throws(() => choiceConstraint(wrong, 'choice'), { message: /choice/ });
});
