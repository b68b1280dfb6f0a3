// A required call comes, whatever the model writes: in each chat format, a generator that avoids
// calls is held to the answer's grammar.
import { readFileSync, readdirSync } from 'node:fs';
import t from 'tap';
import type { ChatPrompt, NativeModel } from '#recua/addon/addon.js';
import { GbnfMatcher } from '../gbnf-matcher.js';
import { GbnfWalker } from '../gbnf-walker.js';
import { chatPrompt, loadBuiltin } from '../setup.js';

let model: NativeModel;
t.before(async () => { model = await loadBuiltin(); });
t.teardown(() => model.close());

const folder = new URL('../../../vendor/llama.cpp/models/templates/', import.meta.url);
const templates = readdirSync(folder).filter((name) => name.endsWith('.jinja'));
/** Templates for which llama.cpp has no call format. */
const withoutCalls = /^(HuggingFaceTB-SmolLM3|deepseek-ai-DeepSeek-R1-Distill-Llama|google-gemma-2|ibm-granite-granite-3|llama-cpp-rwkv|microsoft-Phi-3)/;

const schema = (properties: object, required: string[]) => ({ type: 'object', properties, required, additionalProperties: false });
const tools = [
  { name: 'lamp', parameters: schema({ on: { type: 'boolean' } }, ['on']) },
  { name: 'ask', parameters: schema({ words: { type: 'string' }, times: { type: 'integer' } }, ['words']) },
  { name: 'patch', parameters: schema({ input: { type: 'string' } }, ['input']) },
];
const offered = JSON.stringify(tools.map((tool) => ({ type: 'function', function: { description: 'x', ...tool } })));
const customInputs = [{ tool: 2, root: 'input-of-2', plain: 'input-of-2 ::= "w\\n" [0-9]\n', json: 'input-of-2 ::= "w\\\\n" [0-9]\n' }];

/** Pseudo-random numbers. */
function chance(seed: number): (below: number) => number {
  let state = Math.imul(seed, 0x9e3779b1);
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
    return (state >>> 3) % below;
  };
}

/** Writes whatever is allowed for a while, then heads for an end. */
function answer(prompt: ChatPrompt, matcher: GbnfMatcher, seed: number): string {
  const next = chance(seed);
  const marks = [...prompt.grammar.matchAll(/"((?:[^"\\]|\\.)+)"/g)].map(([, text]) => text!.replaceAll('\\n', '\n').replaceAll(/\\(.)/g, '$1'));
  const likes = ['Hello, I can help. ', '\n\n', ' ', '{}', '{"name": "lamp"', '```json\n', 'all\n', ' to=self<|message|>', ...prompt.thinking, ...prompt.thinking, ...marks];
  const walker = new GbnfWalker(matcher);
  for (const character of prompt.generationPrompt) if (!walker.take(character)) throw new Error(`refuses ${JSON.stringify(prompt.generationPrompt)} at ${JSON.stringify(walker.text)}`);
  const begun = walker.text.length;
  for (let times = next(40); times > 0 && walker.text.length < begun + 200; times--) {
    for (const character of likes[next(likes.length)]!) {
      if (!walker.take(character)) break;
    }
    if (walker.mayEnd) break;
  }
  walker.finish();
  return walker.text.slice(begun);
}

function read(prompt: ChatPrompt, text: string) {
  const parser = model.createParser(prompt, true);
  const streamed = { content: '', reasoning: '', calls: [] as { name: string; arguments: string }[] };
  const take = (part: string, partial: boolean) => {
    const delta = parser.parse(part, partial);
    streamed.content += delta.content ?? '';
    streamed.reasoning += delta.reasoning ?? '';
    for (const call of delta.toolCalls ?? []) {
      const known = (streamed.calls[call.index] ??= { name: '', arguments: '' });
      known.name += call.name ?? '';
      known.arguments += call.arguments;
    }
  };
  for (let end = 1; end < text.length; end++) {
    try {
      take(text.slice(0, end), true);
    } catch {
      // More text may complete it.
    }
  }
  take(text, false);
  const { content, reasoning, toolCalls } = parser.message();
  parser.close();
  return { streamed, whole: { content, reasoning, calls: toolCalls.map(({ name, arguments: given }) => ({ name, arguments: given })) } };
}

for (const name of ['', ...templates]) {
  t.test(`${name || 'the built-in model’s template'}: a call comes, and nothing else`, async (t) => {
    const template = name && readFileSync(new URL(name, folder), 'utf8');
    const ask = (more: object) => chatPrompt(model, 'Go', { template, tools: offered, toolChoice: 'required' as const, ...more });
    if (withoutCalls.test(name)) return t.rejects(ask({}), { code: 'chat_unsupported', message: /no form for calls/ });
    let thought = 0;
    for (const more of [
      { enableThinking: true, parallelToolCalls: false },
      { enableThinking: false, parallelToolCalls: true },
      { parallelToolCalls: true, customInputs },
    ]) {
      let matcher: GbnfMatcher | undefined;
      for (let seed = 1; seed <= 12; seed++) {
        const prompt = await ask(more); // one parser each
        matcher ??= new GbnfMatcher(prompt.grammar);
        const text = answer(prompt, matcher, seed);
        const { whole, streamed } = read(prompt, text);
        const calls = whole.calls.filter((call) => tools.some((tool) => tool.name === call.name));
        const isOne = more.parallelToolCalls || calls.length === 1;
        const isForced = calls.length > 0 && calls.length === whole.calls.length && isOne && whole.content.trim() === '';
        if (!isForced) return t.fail(JSON.stringify({ text, whole }));
        if (JSON.stringify(streamed) !== JSON.stringify(whole)) return t.strictSame(streamed, whole, JSON.stringify(text));
        thought += whole.reasoning.length;
      }
    }
    t.pass(`with ${thought} characters of thoughts`);
  });
}

t.test('a string in a call holds nothing that JSON forbids or the parser refuses', async (t) => {
  for (const [name, begin] of [['LFM2.5-Instruct', '<|tool_call_start|>[ask(words="'], ['mistralai-Mistral-Nemo-Instruct-2407', '[TOOL_CALLS][{"name":"lamp","arguments":{"on":true},"id":"']] as const) {
    const { grammar, generationPrompt } = await chatPrompt(model, 'Go', { template: readFileSync(new URL(`${name}.jinja`, folder), 'utf8'), tools: offered, toolChoice: 'required' });
    const walker = new GbnfWalker(new GbnfMatcher(grammar));
    for (const character of `${generationPrompt}${begin}\\n`) t.ok(walker.take(character), character);
    for (const character of '\n\t\u001f') t.notOk(walker.take(character), `${name}: ${JSON.stringify(character)}`);
    t.ok(walker.take('\\'));
    t.notOk(walker.take(' '), `${name}: an escaped blank`);
  }
});
