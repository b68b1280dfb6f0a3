// Answers are parsed as llama.cpp's own tests record, in every chat format: whole, and streamed
// byte by byte. The cases come from the vendored source.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { NativeModel } from '#recua/addon/addon.js';
import { release, root } from '../fake-backend.js';
import { loadBuiltin } from '../setup.js';

let model: NativeModel;
t.before(async () => { model = await loadBuiltin(); });
t.teardown(() => model.close());

interface Message {
  content: string;
  reasoning: string;
  toolCalls: { name: string; arguments: string; id: string }[];
}
interface Case extends Message {
  template: string;
  messages: string;
  tools: string;
  toolChoice: 'auto' | 'required' | 'none';
  jsonSchema: string;
  parallelToolCalls: boolean;
  enableThinking: boolean;
  addGenerationPrompt: boolean;
  continuation: 'auto' | 'content' | 'reasoning_content' | 'none';
  input: string;
  partial: boolean;
  /** Otherwise it is what llama.cpp gives with thoughts parsed. */
  recorded: boolean;
}

const llama = join(root, 'vendor', 'llama.cpp');

/** Compiled once per version of the sources. */
function cases(): Case[] {
  const source = readFileSync(join(llama, 'tests', 'test-chat.cpp'), 'utf8');
  const harness = join(root, 'test', 'native', 'chat', 'recorded-outputs.cpp');
  const part = (from: string, to: string) => {
    const [start, end] = [source.indexOf(`\n${from}`), source.indexOf(`\n${to}`)];
    t.ok(start >= 0 && end > start, `the source has ${from}`);
    return source.slice(start, end);
  };
  const replaced = (text: string, from: string, to: string) => {
    t.equal(text.split(from).length, 2, `it has ${from} once`);
    return text.replace(from, to);
  };
  const parts = [
    'using json = common_json;',
    part('static std::string read_file(', 'static std::unique_ptr<llama_grammar> build_grammar('),
    part('static common_chat_tool special_function_tool{', '// Global template filter'),
    replaced(part('// Fluent builder', 'static void test_msgs_oaicompat_json_conversion()'),
      'test_peg_parser(tester_.tmpls_.get(), [this](peg_test_case & t) { t = tc_; }, tester_.detailed_debug_)',
      'tell(tester_.tmpls_.get(), tester_.template_path(), tc_)'),
    part('static void test_lfm2_parser(', 'static void test_template_generation_prompt()'),
  ].join('\n');
  const version = createHash('sha256').update(parts).update(readFileSync(harness)).digest('hex').slice(0, 16);
  const folder = join(root, 'build', 'test-recorded', version);
  const kept = join(folder, 'cases.jsonl');
  if (!existsSync(kept)) {
    mkdirSync(folder, { recursive: true });
    const [recorded, program] = [join(folder, `${process.pid}.inc`), join(folder, `${process.pid}.out`)];
    writeFileSync(recorded, parts);
    execFileSync(process.env['CXX'] || 'c++', [
      '-std=c++17', '-O0', '-w', ...['common', 'include', 'ggml/include', 'src'].map((name) => `-I${join(llama, name)}`), `-DRECORDED="${recorded}"`,
      harness, '-o', program, `-L${release}`, '-lllama-common', '-lllama', '-lggml', '-lggml-base', `-Wl,-rpath,${release}`,
    ], { stdio: ['ignore', 'inherit', 'inherit'] });
    writeFileSync(`${program}.jsonl`, execFileSync(program, { cwd: llama, encoding: 'utf8', maxBuffer: 1 << 26, stdio: ['ignore', 'pipe', 'inherit'] }));
    renameSync(`${program}.jsonl`, kept);
  }
  return readFileSync(kept, 'utf8').split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Case);
}

/**
 * Compares like llama.cpp's tests: JSON by value, except if incomplete, and texts without
 * surrounding space.
 */
function comparable({ content, reasoning, toolCalls }: Message) {
  const normal = (text: string) => {
    try {
      return JSON.stringify(JSON.parse(text));
    } catch {
      return '';
    }
  };
  return {
    content: content.trim(),
    reasoning: reasoning.trim(),
    toolCalls: toolCalls.map(({ name, arguments: given, id }) => ({ name, arguments: normal(given), id })),
  };
}

t.test('every recorded answer is parsed as llama.cpp parses it, whole and streamed', async (t) => {
  const all = cases();
  t.ok(all.length > 400, `${all.length} answers`);
  for (const [index, one] of all.entries()) {
    const { template: path, input, partial, recorded, content, reasoning, toolCalls, ...asked } = one;
    // Known difference: here llama.cpp's parser finds no call; in its own test harness it does.
    if (path.includes('Mistral-Small-3.2') && input.includes('[CALL_ID]')) continue;
    const title = `${path} ${index} ${JSON.stringify(input.slice(0, 120))}`;
    const template = readFileSync(join(llama, path), 'utf8');
    const parserOf = async () => model.createParser(await model.applyChatTemplate({ ...asked, grammar: '', templateKwargs: {}, template }), true);
    const expected = comparable({ content, reasoning, toolCalls });
    const [wholeParser, parser] = [await parserOf(), await parserOf()];
    wholeParser.parse(input, partial);
    // An answer that continues the last message does not repeat its text.
    const streamed: Message = parser.message();
    const bytes = new TextEncoder().encode(input);
    for (let end = 1; end <= bytes.length; end++) {
      // Texts never contain a partial character.
      const text = new TextDecoder().decode(bytes.subarray(0, end), { stream: true });
      let delta: ReturnType<typeof parser.parse>;
      try {
        delta = parser.parse(text, end < bytes.length || partial);
      } catch (error) {
        if (end === bytes.length) throw error;
        continue; // more of the text mends it
      }
      streamed.content += delta.content ?? '';
      streamed.reasoning += delta.reasoning ?? '';
      for (const call of delta.toolCalls ?? []) {
        const known = (streamed.toolCalls[call.index] ??= { name: '', arguments: '', id: '' });
        if (call.name !== undefined) known.name += call.name;
        if (call.id !== undefined) known.id += call.id;
        known.arguments += call.arguments;
      }
    }
    // A call gets a generated id if the format has none, or puts it last.
    const own = (message: Message, known: Message): Message => ({
      ...message, toolCalls: message.toolCalls.map((call, at) => ({ ...call, id: /^call_\w{24}$/.test(call.id) ? known.toolCalls[at]?.id ?? '' : call.id })),
    });
    const blank = { ...expected, toolCalls: toolCalls.map((call) => (call.id === '' ? call : { ...call, id: 'none of its own' })) };
    t.strictSame(comparable(own(wholeParser.message(), blank)), expected, `${title}: whole`);
    t.strictSame(comparable(own(streamed, expected)), expected, `${title}: as it comes`);
    wholeParser.close();
    parser.close();
  }
});
