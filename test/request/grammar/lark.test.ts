// Lark grammars → GBNF: Codex's own, the syntax that OpenAI documents, and refusals with their
// line.
import t from 'tap';
import type { RecuaError } from '#recua/errors.js';
import { grammarConstraint, larkTrees } from '#recua/request/grammar/constraint.js';
import { writeRules } from '#recua/request/grammar/gbnf.js';
import { Budget, invalid } from '#recua/request/grammar/tree.js';
import { GbnfMatcher } from '../../native/gbnf-matcher.js';
import { applyPatch, patch } from './apply-patch.js';

const language = (lark: string, spelling: 'plain' | 'json' = 'plain') => {
  const budget = new Budget((why) => invalid('definition', why));
  return new GbnfMatcher(writeRules(larkTrees(lark, 'definition', budget), 'root', spelling, budget));
};

t.test('the grammar of apply_patch accepts patches and nothing else, in both spellings', async (t) => {
  const good = [
    patch,
    '*** Begin Patch\n*** Delete File: a b.txt\n*** End Patch',
    '*** Begin Patch\n*** Update File: x\n*** Move to: y\n@@ def f():\n-a\n+b\n c\n*** End of File\n*** End Patch\n',
    '*** Begin Patch\n*** Add File: q\n+\n+"\\t" é 😀\n*** End Patch\n',
  ];
  const bad = ['', 'rm -rf /', patch.slice(0, -4), patch.replace('+', ''), '*** Begin Patch\n*** End Patch\n', '*** Begin Patch\n*** Add File: \n+x\n*** End Patch\n', `${patch}\n`];
  const [plain, json] = [language(applyPatch), language(applyPatch, 'json')];
  for (const text of good) {
    t.ok(plain.matches(text), text);
    t.ok(json.matches(JSON.stringify(text).slice(1, -1)), text);
  }
  for (const text of bad) {
    t.notOk(plain.matches(text), JSON.stringify(text));
    t.notOk(json.matches(JSON.stringify(text).slice(1, -1)), JSON.stringify(text));
  }
});

t.test('all documented syntax works', async (t) => {
  const cases: [lark: string, yes: string[], no: string[]][] = [
    ['start: "a" ("b" | "c")* "d"?', ['a', 'abcb', 'acd'], ['', 'b', 'add']],
    ['start: word (", " word)~1..2\nword: /[a-z]+/', ['a, b', 'a, b, c'], ['a', 'a, b, c, d']],
    ['start: "x"~3', ['xxx'], ['xx', 'xxxx']],
    ['start: ["very "] "good"', ['good', 'very good'], ['very ']],
    ['start: "Select"i', ['select', 'SELECT', 'sElEcT'], ['selec']],
    ['start: /yes|no/i', ['YES', 'no'], ['']],
    ['start: "a".."f" "0".."9"', ['a0', 'f9'], ['g0']],
    ['// a comment\nstart: A | B // more\nA: "a"\n  | "aa"\nB.2: "b"\n# and this', ['a', 'aa', 'b'], ['ab']],
    ['?start: expr\n?expr: term | expr "+" term -> add\n!term: NUMBER | "(" expr ")"\n%import common.NUMBER', ['1', '1+2', '(1+2)+3.5'], ['+1', '1+', '()']],
    ['start: pair*\npair: NAME "=" INT ";"\n%import common (CNAME, INT)\nNAME: CNAME\n%import common.WS\n%ignore WS', ['', ' a = 1 ; b=2;', 'a=1;'], ['a=b;', 'a = 1']],
    ['start: start "x" | "y"\n%ignore " "', ['y', ' y x', 'yxx', 'y x x '], ['', 'x', 'x y']],
    ['start: A\n%import common.ESCAPED_STRING -> A', ['"a\\"b"'], ['"a']],
    ['start: (\n  "a"\n  | "b"\n)+', ['ab', 'b'], ['']],
    ['start: "\\n" "\\"" "\\\\" "\\u00e9" "\\x41"', ['\n"\\éA'], ['n']],
    ['start: list\nlist: "[" [list ("," list)*] "]"', ['[]', '[[],[[]]]'], ['[', '[,]']],
    ['start: _item+\n_item: _SEP? "i"\n_SEP: ","', ['i,i', ',i'], [',']],
    ['start: /a\\/b/ "c"', ['a/bc'], ['a\\/bc']],
    ['start: ', [''], ['a']],
  ];
  for (const [lark, yes, no] of cases) {
    const made = language(lark);
    for (const text of yes) t.ok(made.matches(text), `${JSON.stringify(text)} by ${lark}`);
    for (const text of no) t.notOk(made.matches(text), `${JSON.stringify(text)} by ${lark}`);
  }
  const commons = ['DIGIT', 'HEXDIGIT', 'INT', 'SIGNED_INT', 'DECIMAL', 'FLOAT', 'SIGNED_FLOAT', 'NUMBER', 'SIGNED_NUMBER', 'LETTER', 'WORD', 'CNAME', 'WS_INLINE', 'WS', 'CR', 'LF', 'NEWLINE', 'SH_COMMENT', 'CPP_COMMENT', 'C_COMMENT', 'SQL_COMMENT', 'LCASE_LETTER', 'UCASE_LETTER', 'ESCAPED_STRING'];
  for (const name of commons) t.doesNotThrow(() => language(`start: ${name}\n%import common.${name}`), name);
  t.ok(language('start: C\n%import common.C_COMMENT -> C').matches('/* a * b **/'));
});

t.test('unsupported syntax is refused with its line and what to do', async (t) => {
  const refused: [string, number, RegExp][] = [
    ['begin: "a"', 1, /no rule start/], ['start: a\nb: "x"', 1, /rule a is not defined/], ['start: "a"\n\nx: Y', 3, /terminal Y is not defined/],
    ['start: "a', 1, /string is not closed/], ['start: "a"\nstart: "b"', 2, /defined twice/], ['start: ("a"', 1, /not closed|not expected/],
    ['start: /a(?=b)/', 1, /looks ahead/], ['start: /(a/', 1, /not closed/], ['start: "a"\n%import python.NAME', 2, /only common/],
    ['start: "a"\n%import common.NOPE', 2, /common has no NOPE; it has/], ['%declare X\nstart: X', 1, /%declare/], ['start: x{a}\na: "a"', 1, /template/],
    ['start: "a"x', 1, /flag x/], ['start: /a/x', 1, /flag x/], ['start: <|tool|>', 1, /special token/], ['start: "a"~3..1', 1, /smaller first/],
    ['start: "a" ~ 200000', 1, /0 to 100000/], ['start: start', 1, /begins with itself/], ['start "a"', 1, /expects ":"/], ['start: "\\q"', 1, /unknown escape/],
    ['start: a\na: b "x"\nb: c? a "y" | "z"\nc: "c"', 2, /through other rules/],
    ['start: "b".."a"', 1, /range ends before/], ['start: "ab".."c"', 1, /one character to another/], ['start: "a" )', 1, /not expected/], ['start: @', 1, /starts no token/],
    ['start[capture]: "a"', 1, /attributes/], ['start: "\\ud800".."\\udfff"', 1, /half a surrogate pair/], ['start: "x"\ny: "a\\udc00b"', 2, /half a surrogate pair/],
  ];
  for (const [lark, line, why] of refused) {
    t.throws(() => grammarConstraint(lark, 'definition'), { code: 'invalid_grammar', param: 'definition', message: new RegExp(`in line ${line}\\b.*(${why.source})`) }, lark);
  }
});

t.test('every grammar takes a bounded number of steps', async (t) => {
  const hostile = [
    `start: ${'('.repeat(30_000)}`, `start: ${'["a"'.repeat(99)}${']'.repeat(99)}`, `start: ${'"a"~99999 '.repeat(6_000)}`, `start: ${'a '.repeat(30_000)}\na: start`,
    Array.from({ length: 5_000 }, (_, i) => `r${i}: r${i + 1} r${i + 1}`).join('\n'), `start: ${'/\\p{L}/ '.repeat(8_000)}`, `start: ${'"x"i '.repeat(12_000)}`,
    `start: "a"\n${'%ignore "b"\n'.repeat(5_000)}`, `start: ${'|'.repeat(60_000)}`, '\n'.repeat(60_000), `start: ${'/[^\\W]/i '.repeat(6_000)}`, '%'.repeat(60_000),
  ];
  for (const lark of hostile) {
    const startMs = performance.now();
    try {
      grammarConstraint(lark, 'definition');
    } catch (error) {
      t.match((error as RecuaError).code, /^invalid_(grammar|value)$/);
    }
    t.comment(`${lark.slice(0, 30)}: ${Math.round(performance.now() - startMs)} ms`);
  }
});
