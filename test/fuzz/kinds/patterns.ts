// Regular expressions and Lark grammars for answers and custom tools: parsed here, compiled and
// enforced by the engine.
import fc from 'fast-check';
import { Fields } from '#recua/request/fields.js';
import { choiceConstraint, grammarConstraint, regexConstraint } from '#recua/request/grammar/constraint.js';
import { readCustomFormat } from '#recua/request/grammar/custom-input.js';
import { Spent } from '#recua/request/grammar/tree.js';
import { anyText, editedText, textEdits, unchanged, type TextEdit } from '../edits.js';
import { kind, outcomeOf, type Outcome } from '../kind.js';
import { isRefusal, openNative } from './native-subject.js';

interface Case {
  syntax: 'regex' | 'lark' | 'choice';
  text: string;
  edits: TextEdit[];
  /** For a custom tool instead of the answer. */
  custom: boolean;
}

const regexAtom = fc.oneof(fc.constantFrom('a', 'é', '💥', '.', '\\d', '\\W', '\\s', '[a-z]', '[^a]', '[]', '[z-a]', '[[:alpha:]]', '\\p{L}', '\\p{Nope}', '\\x41', '\\u0041', '\\u{110000}', '\\ud800', '^', '$', '\\b', '\\1', '\\', '(?=x)', '(?i)', '[\\d-\\w]', '\\0', '\u0000'), fc.string({ maxLength: 2 }));
const times = fc.constantFrom('', '', '', '*', '+', '?', '*?', '{3}', '{2,}', '{0,5}', '{100000}', '{5,3}', '{1000,100000}', '{,3}', '**', '++');
const { regex } = fc.letrec<{ regex: string; item: string }>((tie) => ({
  item: fc.tuple(fc.oneof({ depthSize: 'small', withCrossShrink: true }, regexAtom, fc.tuple(fc.constantFrom('(', '(?:', '(?<n>', '(?!', '(?i:'), tie('regex')).map(([open, inner]) => `${open}${inner})`)), times).map((parts) => parts.join('')),
  regex: fc.array(fc.array(tie('item'), { maxLength: 4 }).map((items) => items.join('')), { minLength: 1, maxLength: 3 }).map((all) => all.join('|')),
}));

const larkName = fc.constantFrom('start', 'a', 'b', '_c', '?d', 'X', 'Y', 'WORD', 'missing');
const larkAtom = fc.oneof(fc.constantFrom('"a"', '"a"i', '""', '/[a-z]+/', '/(a|b)*/i', '/(/', '"a".."z"', '"z".."a"', '%json {}', '@x', '$y'), larkName, fc.string({ maxLength: 3 }).map((text) => JSON.stringify(text)));
const { larkWays } = fc.letrec<{ larkWays: string; item: string }>((tie) => ({
  item: fc.tuple(fc.oneof({ depthSize: 'small', withCrossShrink: true }, larkAtom, tie('larkWays').map((inner) => `(${inner})`), tie('larkWays').map((inner) => `[${inner}]`)), fc.constantFrom('', '', '*', '+', '?', '~3', '~2..5', '~100000', '~5..3', ' -> x')).map((parts) => parts.join('')),
  larkWays: fc.array(fc.array(tie('item'), { maxLength: 4 }).map((items) => items.join(' ')), { minLength: 1, maxLength: 3 }).map((all) => all.join(' | ')),
}));
const larkLine = fc.oneof({ weight: 6, arbitrary: fc.tuple(larkName, fc.constantFrom('', '', '.5', '{x}', '[max_tokens=3]'), larkWays).map(([name, more, all]) => `${name}${more}: ${all}`) }, fc.constantFrom('%import common.WORD', '%import common (INT, WS)', '%import nothing.X', '%ignore WS', '%ignore /x*/', '%declare X', '%override a: "x"', '%extend a: "x"', '// words', '%llguidance {}'));
const lark = fc.tuple(larkWays, fc.array(larkLine, { maxLength: 6 })).map(([start, lines]) => [`start: ${start}`, ...lines].join('\n'));

const deep = fc.record({ open: fc.constantFrom('(', '(?:', '[', 'a|(', '((a)*'), count: fc.constantFrom(90, 110, 5_000, 30_000) }).map(({ open, count }) => `${open.repeat(count)}a${')'.repeat(count)}`);

export default kind<Case>({
  cases: fc.record({
    way: fc.oneof(
      fc.record({ syntax: fc.constant('regex' as const), text: fc.oneof({ weight: 20, arbitrary: regex }, deep) }),
      fc.record({ syntax: fc.constant('lark' as const), text: fc.oneof({ weight: 20, arbitrary: lark }, deep.map((text) => `start: ${text}`)) }),
      fc.record({ syntax: fc.constant('choice' as const), text: anyText(12) }),
    ),
    edits: fc.oneof({ weight: 2, arbitrary: unchanged }, textEdits(['(', ')', '[', ']', '{', '|', '*', '\\', '/', '"', ':', '\n', '%', '~', '..', '\u0000', '\ud800'])),
    custom: fc.boolean(),
  }).map(({ way, edits, custom }) => ({ ...way, edits, custom })),
  few: 300, mostMs: 20_000, mostMib: 700,
  async open() {
    const subject = await openNative();
    const grammarOf = ({ syntax, custom }: Case, text: string): string => {
      if (syntax !== 'choice' && custom) return readCustomFormat(Fields.of({ syntax, definition: text }), 'root', new Spent()).rules.plain;
      const made = syntax === 'choice' ? choiceConstraint(text.split('a'), 'choice') : syntax === 'regex' ? regexConstraint(text, 'regex') : grammarConstraint(text, 'grammar');
      return made.kind === 'grammar' ? made.grammar : '';
    };
    return {
      async take(one): Promise<Outcome> {
        let grammar: string;
        try {
          grammar = grammarOf(one, editedText(one.text, one.edits));
        } catch (thrown) {
          return outcomeOf(thrown, isRefusal);
        }
        try {
          return await subject.follow(grammar);
        } catch (thrown) {
          return outcomeOf(thrown, isRefusal);
        }
      },
      close: () => subject.close(),
    };
  },
});
