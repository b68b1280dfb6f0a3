// GBNF grammars: from their own syntax, with rules that refer anywhere, and with edited letters.
import fc from 'fast-check';
import { editedText, textEdits, unchanged, type TextEdit } from '../edits.js';
import { kind, outcomeOf, type Outcome } from '../kind.js';
import { isRefusal, openNative } from './native-subject.js';

interface Case {
  grammar: string;
  edits: TextEdit[];
}

const names = ['a', 'b', 'c', 'd-1'] as const;

/** The texts of rules; with `wrong`, most contain a mistake. */
function makeWays(wrong: boolean): fc.Arbitrary<string> {
  const one = (...all: [sound: string[], mistakes: string[]]) => fc.constantFrom(...all[0], ...(wrong ? all[1] : []));
  // A rule that starts with a letter is not left-recursive.
  const rule = one([...names, 'root'].map((name) => `"x" ${name}`), [...names, 'missing']);
  const times = one(['', '', '', '*', '+', '?', '{0}', '{3}', '{2,}', '{0,5}', '{1,300}'], ['{100,100000}', '{1000000000}', '{5,3}', '**']);
  const literal = fc.oneof(one(['"a"', '"é"', '"\\n"', '"\\x01"', '"\\u00e9"', '"\\U0010FFFF"', '"\\""', '"💥"', '"abc"'], ['""', '"\\x00"', '"\\uD800"', '"\\q"']), fc.string({ unit: fc.constantFrom('a', ' ', '|', ')', 'é'), minLength: 1, maxLength: 5 }).map((text) => JSON.stringify(text)));
  const set = one(['[a-z]', '[^a]', '[\\u0000-\\uFFFF]', '[a\\]b-]', '.', '[^"\\\\]', '<[5]>', '!<[5]>'], ['[]', '[z-a]', '[^\\x00-\\U0010FFFF]', '<[99999999]>', '<nothing>']);
  return fc.letrec<{ item: string; ways: string }>((tie) => ({
    item: fc.tuple(fc.oneof({ depthSize: 'small', withCrossShrink: true }, literal, set, rule, tie('ways').map((inner) => `(${inner})`)), times).map((parts) => parts.join('')),
    ways: fc.array(fc.array(tie('item'), { maxLength: 4 }).map((items) => items.join(' ') || '"y"'), { minLength: 1, maxLength: 4 }).map((all) => all.join(' | ')),
  })).ways;
}

const deep = fc.record({ around: fc.constantFrom('(', '"a" ('), count: fc.constantFrom(50, 500, 5_000) }).map(({ around, count }) => `root ::= ${around.repeat(count)}"x"${')'.repeat(count)}`);
const rules = (ways: fc.Arbitrary<string>) => fc.record({ root: ways, a: ways, b: ways, c: ways, 'd-1': ways }).map((all) => Object.entries(all).map(([name, text]) => `${name} ::= ${text}`).join('\n'));
const sound = rules(makeWays(false));
const wrong = rules(makeWays(true));

export default kind<Case>({
  cases: fc.record({ grammar: fc.oneof({ weight: 12, arbitrary: sound }, { weight: 8, arbitrary: wrong }, deep), edits: fc.oneof({ weight: 3, arbitrary: unchanged }, textEdits(['::=', '|', '(', ')', '"', '[', ']', '{', '}', '*', '\n', '#', '\\', '\u0000', '\ud800', '<[', ']>', '%llguidance {}'])) }),
  few: 300, mostMs: 20_000, mostMib: 700,
  async open() {
    const subject = await openNative();
    return {
      async take({ grammar, edits }): Promise<Outcome> {
        try {
          // '' is not a grammar.
          return await subject.follow(editedText(grammar, edits) || 'root ::=');
        } catch (thrown) {
          return outcomeOf(thrown, isRefusal);
        }
      },
      close: () => subject.close(),
    };
  },
});
