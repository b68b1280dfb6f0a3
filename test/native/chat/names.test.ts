// Names of tools and parameters: whatever they are, each has its own rules in a call's grammar.
import { readFileSync, readdirSync } from 'node:fs';
import t from 'tap';
import type { NativeModel } from '#recua/addon/addon.js';
import { chatPrompt, loadBuiltin } from '../setup.js';

let model: NativeModel;
t.before(async () => { model = await loadBuiltin(); });
t.teardown(() => model.close());

const folder = new URL('../../../vendor/llama.cpp/models/templates/', import.meta.url);
const templates = readdirSync(folder).filter((name) => name.endsWith('.jinja'));
/** Templates for which llama.cpp has no call format. */
const withoutCalls = /^(HuggingFaceTB-SmolLM3|deepseek-ai-DeepSeek-R1-Distill-Llama|google-gemma-2|ibm-granite-granite-3|llama-cpp-rwkv|microsoft-Phi-3)/;
/** llama.cpp's grammar for it leaves the names of parameters to the model. */
const freeParameters = /^google-gemma-4/;

const tool = (name: string, ...parameters: string[]) => ({
  type: 'function', function: { name, description: 'x', parameters: { type: 'object', properties: Object.fromEntries(parameters.map((one) => [one, { type: 'integer' }])), required: parameters } },
});
const cases: Record<string, object[]> = {
  'parameters that differ in a sign': [tool('weather', 'max_x', 'max-x')],
  'parameters in Chinese': [tool('weather', '城市', '日期')],
  'tools that differ in a sign': [tool('get_x', 'alpha'), tool('get-x', 'beta')],
  'long names': [tool('mcp__github__create_pull_request_review_comment', 'pull_request_review_thread_id', 'body')],
  'names with the same long beginning': [tool(`${'n'.repeat(90)}a`, 'alpha'), tool(`${'n'.repeat(90)}b`, 'beta')],
  'names of rules': [tool('call', 'root'), tool('root', 'call')],
};

/** Rules that are used and not defined. */
function undefinedRules(grammar: string): string[] {
  const defined = new Set([...grammar.matchAll(/^([\w-]+) ::=/gm)].map(([, name]) => name!));
  const bare = grammar.replaceAll(/"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|\{[\d,]*\}/g, ' ');
  return [...bare.matchAll(/[a-zA-Z][\w-]*/g)].map(([name]) => name).filter((name) => !defined.has(name));
}

for (const [what, tools] of Object.entries(cases)) {
  t.test(what, async (t) => {
    const words = JSON.stringify(tools).matchAll(/"name":"([^"]+)"|"([^"]+)":\{"type":"integer"\}/g);
    const names = [...words].map(([, ofTool, ofParameter]) => ({ name: (ofTool ?? ofParameter)!, isParameter: ofTool === undefined }));
    for (const file of templates) {
      if (withoutCalls.test(file)) continue;
      const chat = await chatPrompt(model, 'hi', { tools: JSON.stringify(tools), toolChoice: 'required', template: readFileSync(new URL(file, folder), 'utf8') });
      for (const { name, isParameter } of names) {
        if (!(isParameter && freeParameters.test(file)) && !chat.grammar.includes(name)) t.fail(`${file}: nothing spells ${name}`);
      }
      const unknown = undefinedRules(chat.grammar);
      if (unknown.length > 0) t.fail(`${file}: no rule ${unknown[0]}`);
      const own = /^(tool-calls?|root) ::= (.*)$/gm;
      for (const [, rule, text] of chat.grammar.matchAll(own)) {
        if (new RegExp(`(?<![\\w-])${rule!}(?![\\w-])`).test(text!.replaceAll(/"(?:[^"\\]|\\.)*"/g, ''))) t.fail(`${file}: ${rule} begins with itself`);
      }
      const sampler = await model.createSampler({ temperature: 0, shape: chat.shape }, new Int32Array());
      sampler.close();
    }
    t.pass(`${templates.length} templates`);
  });
}

t.test('a tool named "calls" is called once, like any other', async (t) => {
  const repeats = async (file: string, name: string): Promise<number> => {
    const chat = await chatPrompt(model, 'hi', { tools: JSON.stringify([tool(name, 'alpha')]), toolChoice: 'required', parallelToolCalls: false, template: readFileSync(new URL(file, folder), 'utf8') });
    return chat.grammar.split(')+').length - 1;
  };
  for (const file of templates) {
    if (!withoutCalls.test(file)) t.equal(await repeats(file, 'calls'), await repeats(file, 'other'), file);
  }
});
