// Messages → prompt → tokens → sampler and parser in one task, with the results of
// applyChatTemplate, tokenize, createSampler and createParser.
import { createHook } from 'node:async_hooks';
import { readFile } from 'node:fs/promises';
import t from 'tap';
import type { NativeModel, PrepareInput } from '#recua/addon/addon.js';
import { newCancelFlag } from '#recua/engine/prompts/cancel-flag.js';
import { chatPrompt, contextOptions, generate, loadBuiltin } from '../setup.js';
import { templateFiles, templateOf } from './exact-history.js';

let model: NativeModel;
t.before(async () => { model = await loadBuiltin(); });
t.teardown(() => model.close());

const tools = JSON.stringify([{ type: 'function', function: { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } } }]);
const loose = JSON.stringify({ type: 'object', properties: { a: { type: 'string', format: 'unheard-of' } } });

const input = (content: string, more: Partial<PrepareInput> = {}): PrepareInput => ({
  messages: JSON.stringify([{ role: 'user', content }]), tools: '', toolChoice: 'auto', jsonSchema: '', grammar: '', addGenerationPrompt: true, enableThinking: true,
  templateKwargs: {}, template: '', contextSize: 4_000, strict: new Int32Array(), parseToolCalls: true, ...more,
});

const end = ({ made }: Awaited<ReturnType<NativeModel['prepareChat']>>) => {
  made?.sampler.close();
  made?.parser.close();
};

t.test('a chat is one task on the pool', async (t) => {
  let tasks = 0;
  const hook = createHook({ init: (_, type) => { if (type === 'recua') tasks++; } }).enable();
  t.teardown(() => hook.disable());
  end(await model.prepareChat(input('Hi', { tools }), { temperature: 0 }));
  t.equal(tasks, 1);
});

t.test('tokens, parser and constraint match those of the single calls', async (t) => {
  const context = await model.createContext(contextOptions({ contextSize: 1024 }));
  t.teardown(() => context.close());
  const kinds = { plain: {}, tools: { tools }, called: { tools, toolChoice: 'required' as const }, grammar: { grammar: 'root ::= "yes" | "no"' }, schema: { jsonSchema: '{"enum":["a","b"]}' } };
  let sequence = 0;
  const answers: Record<string, number[][]> = {};
  for (const [name, kind] of Object.entries(kinds)) {
    const prompt = await chatPrompt(model, 'Is <|im_end|> text?', kind);
    const tokens = await model.tokenize(prompt.prompt, true, true, { literal: prompt.literal });
    const { made, count, unenforced } = await model.prepareChat(input('Is <|im_end|> text?', kind), { temperature: 0 });
    t.strictSame(made!.tokens, tokens, name);
    t.equal(count, tokens.length);
    t.strictSame([unenforced, made!.stops], [prompt.unenforced, prompt.stops], name);
    answers[name] = [];
    for (const sampler of [made!.sampler, await model.createSampler({ temperature: 0, shape: prompt.shape }, tokens)]) {
      answers[name].push(await generate(context, sampler, tokens, 4, sequence));
      await context.removeSequence(sequence, 0, -1);
      sequence = (sequence + 1) % 4;
      sampler.close();
    }
    t.strictSame(answers[name][0], answers[name][1], name);
    const call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>';
    if ('tools' in kind) t.match(made!.parser.parse(call, false), { toolCalls: [{ name: 'get_weather' }] });
    else t.match(made!.parser.parse('"a"', false), { content: '"a"' }, name);
    made!.parser.close();
  }
  t.notSame(answers['grammar']![0], answers['plain']![0], 'the grammar holds');
});

t.test('a prompt that cannot fit is not read, and messages that cannot fit are not rendered', async (t) => {
  const { longestPiece, takesSpaces } = model.info;
  t.ok(longestPiece > 0 && !takesSpaces);
  const refused = { template: "{{ raise_exception('rendered') }}", contextSize: 100 };
  const text = 'x'.repeat(200 * longestPiece);
  t.strictSame(await model.prepareChat(input(` ${text} `, refused), { temperature: 0 }), { unenforced: [], count: 200, atLeast: true });
  // The template may drop earlier answers, so their length is no reason to skip rendering.
  const answer = JSON.stringify([{ role: 'assistant', content: text }, { role: 'user', content: 'x' }]);
  await t.rejects(model.prepareChat(input('', { ...refused, messages: answer }), { temperature: 0 }), { code: 'invalid_messages', message: /rendered/ });
  const written = await model.prepareChat(input('x', { template: `{{ '${text}' }}`, contextSize: 100 }), { temperature: 0 });
  t.strictSame(written, { unenforced: [], count: 200, atLeast: true });
  const { made, ...read } = await model.prepareChat(input('a b c d e f g h i j', { contextSize: 10 }), { temperature: 0 });
  t.equal(made, undefined);
  t.match(read, { atLeast: false });
  t.ok(read.count >= 10);
});

t.test('a strict schema must be enforced whole; of another the unenforced rest is reported', async (t) => {
  const told = await model.prepareChat(input('x', { jsonSchema: loose }), { temperature: 0 });
  t.match(told, { unenforced: [{ tool: -1 }] });
  t.ok(told.made);
  end(told);
  t.equal((await model.prepareChat(input('x', { jsonSchema: loose, strict: Int32Array.of(-1) }), { temperature: 0 })).made, undefined);
  const other = await model.prepareChat(input('x', { jsonSchema: loose, strict: Int32Array.of(0) }), { temperature: 0 });
  t.ok(other.made);
  end(other);
});

t.test('each part is refused with its own code', async (t) => {
  const rejects = (more: Partial<PrepareInput>, code: string) => t.rejects(model.prepareChat(input('x', more), { temperature: 0 }), { code });
  await rejects({ messages: '[{"role":"user"}' }, 'invalid_messages');
  await rejects({ template: '{% for %}' }, 'chat_unsupported');
  await rejects({ jsonSchema: '{"type":"nonsense"}' }, 'invalid_schema');
  await rejects({ grammar: 'root ::= nothing' }, 'invalid_grammar');
  const cancelled = newCancelFlag();
  cancelled[0] = 1;
  await rejects({ cancelled }, 'cancelled');
});

t.test('a begun answer that cannot become the required call is refused as such', async (t) => {
  const template = await readFile(new URL('../../../vendor/llama.cpp/models/templates/openai-gpt-oss-120b.jinja', import.meta.url), 'utf8');
  const messages = JSON.stringify([{ role: 'user', content: 'Hi' }, { role: 'assistant', content: 'Let me' }]);
  await t.rejects(model.prepareChat({ ...input('', { tools, toolChoice: 'required', template, continuation: 'auto' }), messages }, { temperature: 0 }), { code: 'chat_unsupported', message: /Leave out that message/ });
});

t.test('a long beginning is taken in pieces, however laborious its grammar', async (t) => {
  const schema = (text: object) => JSON.stringify({ type: 'object', properties: { text: { type: 'string', ...text } }, required: ['text'] });
  const begun = (text: object) => model.prepareChat({
    ...input('', { jsonSchema: schema(text), continuation: 'auto', contextSize: 100_000 }),
    messages: JSON.stringify([{ role: 'user', content: 'Hi' }, { role: 'assistant', content: `{"text": "${'the quick brown fox '.repeat(2_000)}` }]),
  }, { temperature: 0 });
  const long = await begun({ maxLength: 900_000 });
  t.ok(long.made);
  end(long);
  await t.rejects(begun({ pattern: '^([a-z]+ ?){1,100000}$' }), { code: 'invalid_grammar', message: /too many possible continuations/ });
  await t.rejects(begun({ maxLength: 10_000 }), { code: 'chat_unsupported', message: /Leave out that message/ });
});

t.test('the result says whether a grammar holds calls', async (t) => {
  const template = await readFile(new URL('../../../vendor/llama.cpp/models/templates/meta-llama-Llama-3.1-8B-Instruct.jinja', import.meta.url), 'utf8');
  for (const [kind, expected] of [[{}, true], [{ template }, false], [{ template, toolChoice: 'required' as const }, true]] as const) {
    const prepared = await model.prepareChat(input('Hi', { tools, ...kind }), { temperature: 0 });
    t.equal(prepared.made!.enforcesCalls, expected);
    end(prepared);
  }
});

t.test('the result says whether the template shows tools, for every vendored template', async (t) => {
  const named = JSON.stringify([{ type: 'function', function: { name: 'qwertzuiop', description: 'Looks it up', parameters: { type: 'object', properties: { at: { type: 'string' } } } } }]);
  const deaf: string[] = [];
  for (const file of templateFiles) {
    const prompt = input('Hi', { tools: named, template: templateOf(file) });
    const { prompt: text } = await model.applyChatTemplate(prompt).catch(() => ({ prompt: undefined }));
    if (text === undefined) continue;
    const prepared = await model.prepareChat(prompt, { temperature: 0 });
    t.equal(prepared.made!.showsTools, text.includes('qwertzuiop'), file);
    if (!prepared.made!.showsTools) deaf.push(file);
    end(prepared);
  }
  t.ok(deaf.length > 0 && deaf.length < 10, deaf.join());
});

t.test('if the model is closed meanwhile, the work ends and returns nothing', async (t) => {
  const own = await loadBuiltin();
  const work = own.prepareChat(input('x', { tools }), { temperature: 0 });
  await Promise.all([own.close(), t.rejects(work, { code: 'closed' })]);
  await t.rejects(own.prepareChat(input('x'), { temperature: 0 }), { code: 'closed' });
});

t.test('a control token within a text that a template preserves is preserved, too', async (t) => {
  // This template preserves the word function together with the token behind it.
  const file = new URL('../../../vendor/llama.cpp/models/templates/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja', import.meta.url);
  const template = (await readFile(file, 'utf8')).replaceAll('<｜tool▁sep｜>', '<|im_start|>');
  const [id] = await model.tokenize('<|im_start|>', false, true);
  const prepared = await model.prepareChat(input('Hi', { tools, template }), { temperature: 0 });
  t.ok(prepared.made!.preservedIds.includes(id!));
  end(prepared);
});
