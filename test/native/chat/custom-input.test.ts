// The input of a custom tool follows its rules, in each argument format that llama.cpp's chat
// templates have: as JSON, or raw between tags.
import { readFileSync, readdirSync } from 'node:fs';
import t from 'tap';
import type { NativeModel } from '#recua/addon/addon.js';
import { GbnfMatcher } from '../gbnf-matcher.js';
import { chatPrompt, loadBuiltin } from '../setup.js';

let model: NativeModel;
t.before(async () => { model = await loadBuiltin(); });
t.teardown(() => model.close());

const folder = new URL('../../../vendor/llama.cpp/models/templates/', import.meta.url);
const templates = readdirSync(folder).filter((name) => name.endsWith('.jinja'));

const parameters = { type: 'object', properties: { input: { type: 'string' } }, required: ['input'], additionalProperties: false };
const tool = (name: string) => ({ type: 'function', function: { name, description: 'x', parameters } });
/** Four characters, two of which are escaped in JSON. */
const rules = (index: number) => ({
  tool: index, root: `input-of-${index}`,
  plain: `input-of-${index} ::= "w\\n" input-of-${index}-1\ninput-of-${index}-1 ::= "\\"" "${index}"\n`,
  json: `input-of-${index} ::= "w\\\\n" input-of-${index}-1\ninput-of-${index}-1 ::= "\\\\\\"" "${index}"\n`,
});

for (const name of ['', ...templates]) {
  t.test(`${name || 'the built-in model’s template'}: the input keeps to the tool's rules`, async (t) => {
    const template = name && readFileSync(new URL(name, folder), 'utf8');
    for (const [names, index] of [[['apply_patch'], 0], [['a_b', 'lookup', 'patch'], 2]] as const) {
      const tools = JSON.stringify(names.map(tool));
      const asked = { template, tools, toolChoice: 'required' as const, parallelToolCalls: false, enableThinking: false };
      let plain;
      try {
        plain = await chatPrompt(model, 'Go', asked);
      } catch (error) {
        return t.comment((error as Error).message);
      }
      const prompt = await chatPrompt(model, 'Go', { ...asked, customInputs: [rules(index)] });
      t.equal(prompt.prompt, plain.prompt, 'no mark is in the prompt');
      if (plain.grammar === '') return t.comment('the template knows no tools');
      const lost = ({ unenforced }: { unenforced: { tool: number }[] }) => unenforced.filter(({ tool }) => tool === index);
      t.strictSame(lost(prompt), []);
      const free = await chatPrompt(model, 'Go', { ...asked, toolChoice: 'auto', customInputs: [rules(index)] });
      if (free.grammar === '') t.match(free.unenforced, [{ pointer: '/properties/input', why: /no mark before a call/, tool: index }]);
      else t.match({ lost: lost(free), grammar: free.grammar }, { lost: [], grammar: new RegExp(`^input-of-${index} ::= `, 'm') });
      const text = new GbnfMatcher(prompt.grammar.replaceAll(/^(ling3-|kimi-k3-)?tool-(a-b-[0-9a-f]{16}|lookup)(-schema)? ::= .*$/gm, '')).shortest();
      t.comment(JSON.stringify(text));
      // The grammar begins with the end of the prompt; if that opens thoughts, not with the
      // shortest end.
      let common = 0;
      while (text[common] === prompt.generationPrompt[common] && common < text.length) common++;
      const [open, close] = prompt.thinking;
      const begun = prompt.generationPrompt.trimEnd();
      // Not within a tag that begins like another.
      if (common < begun.length && !'<[{'.includes(text[common]!)) common = Math.max(0, text.lastIndexOf('<', common - 1));
      const thinks = !!open && begun.includes(open) && !begun.includes(close!) && common < begun.length;
      const answer = (thinks ? `x${close}` : '') + text.slice(common);
      const parser = model.createParser(prompt, true);
      t.teardown(() => parser.close());
      parser.parse(answer, false);
      t.match(parser.message().toolCalls, [{ name: names[index] }], answer);
      t.strictSame(JSON.parse(parser.message().toolCalls[0]!.arguments), { input: `w\n"${index}` }, answer);
    }
  });
}

t.test('without parallel calls there is one call, in every format', async (t) => {
  const tools = JSON.stringify([tool('lamp'), tool('clock')]);
  for (const name of ['', ...templates]) {
    const template = name && readFileSync(new URL(name, folder), 'utf8');
    for (const toolChoice of ['required', 'auto'] as const) {
      let prompt;
      try {
        prompt = await chatPrompt(model, 'Go', { template, tools, toolChoice, parallelToolCalls: false, enableThinking: false });
      } catch (error) {
        t.comment((error as Error).message);
        continue;
      }
      if (prompt.grammar !== '') t.notOk(new GbnfMatcher(prompt.grammar).repeats('lamp'), `${name}, ${toolChoice}`);
    }
  }
  const { grammar } = await chatPrompt(model, 'Go', { tools, toolChoice: 'required', parallelToolCalls: true });
  t.ok(new GbnfMatcher(grammar).repeats('lamp'), 'where they are, there may be more');
});
