// What a model remembers of templates, schemas, tools and grammars is bounded: by malloc's account, which no other process disturbs.
import t from 'tap';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { NativeModel } from '#recua/addon.js';
import { addon, chatPrompt, loadBuiltin } from './setup.js';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
const skip = !addon.heap() && 'the C library does not tell what it has given out';

/** Of each kind a request that no other is like. Its name is long, so that what is kept of it shows. */
const kinds: Record<string, (model: NativeModel, name: string) => Promise<void>> = {
  schemas: async (model, name) => {
    const jsonSchema = JSON.stringify({ type: 'object', properties: { [name]: { type: 'integer' } }, required: [name] });
    const { grammar } = await chatPrompt(model, 'x', { jsonSchema });
    (await model.createSampler({ temperature: 0, grammar, grammarKind: 'schema' }, new Int32Array())).close();
  },
  tools: async (model, name) => {
    const tools = JSON.stringify([{ type: 'function', function: { name: `f${name.slice(0, 40)}`, description: name, parameters: { type: 'object', properties: { [name]: { type: 'integer' } } } } }]);
    const prompt = await chatPrompt(model, 'x', { tools, toolChoice: 'required' });
    model.createParser(prompt, true).parse('x', true);
  },
  grammars: async (model, name) => {
    (await model.createSampler({ temperature: 0, grammar: `root ::= "${name}"`, grammarKind: 'user' }, new Int32Array())).close();
  },
  templates: async (model, name) => {
    await chatPrompt(model, 'x', { template: `{# ${name} #}{% for m in messages %}{{ m.content }}{% endfor %}` });
  },
};

for (const [kind, use] of Object.entries(kinds)) {
  t.test(`${kind}, each another, are not kept for ever`, { skip }, async (t) => {
    const model = await loadBuiltin();
    let count = 0;
    const round = async (requests: number) => {
      for (let i = 0; i < requests; i++) await use(model, `n${count++}${'abcdefgh'.repeat(40)}`);
      // What JavaScript held is finalised in later turns.
      for (let turns = 0; turns < 3; turns++) {
        collect();
        await new Promise(setImmediate);
      }
      return addon.heap()!.usedBytes;
    };
    // More than any cache has entries.
    const before = await round(80);
    const grown = await round(120) - before;
    // What is kept of one is several KiB.
    t.comment(`${kind}: ${grown} bytes`);
    t.ok(grown < 120 * 4096, `grew by ${Math.round(grown / 1024)} KiB`);
    await model.close();
  });
}
