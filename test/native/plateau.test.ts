// A model remembers a bounded amount of templates, schemas, tools and grammars, and a request frees
// its memory when it ends: measured by malloc and by the caches themselves, which no other process
// affects.
import t from 'tap';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { ChatPrompt, NativeModel } from '#recua/addon/addon.js';
import { addon, chatPrompt, loadBuiltin } from './setup.js';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
const skip = !addon.heap() && 'the C library does not tell what it has given out';

/** For each kind, a request unlike any other. Its long name makes leftovers visible. */
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
  t.test(`${kind}, each different, are not kept forever`, { skip }, async (t) => {
    const model = await loadBuiltin();
    let count = 0;
    const round = async (requests: number) => {
      for (let i = 0; i < requests; i++) await use(model, `n${count++}${'abcdefgh'.repeat(40)}`);
      // JavaScript objects are finalized in later turns.
      for (let turns = 0; turns < 3; turns++) {
        collect();
        await new Promise(setImmediate);
      }
      return addon.heap()!.usedBytes;
    };
    // More than any cache holds.
    const before = await round(80);
    const grown = await round(120) - before;
    // An entry takes several KiB.
    t.comment(`${kind}: ${grown} bytes`);
    t.ok(grown < 120 * 4096, `grew by ${Math.round(grown / 1024)} KiB`);
    await model.close();
  });
}

t.test('the parser of a chat is freed at once, not when JavaScript collects it', { skip }, async (t) => {
  const model = await loadBuiltin();
  // Kept here, as V8 would keep them until it collects.
  const kept: unknown[] = [];
  const properties = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`property${i}`, { type: 'string' }]));
  const round = async (from: number) => {
    for (let i = from; i < from + 100; i++) {
      const tools = JSON.stringify([{ type: 'function', function: { name: `f${i}`, parameters: { type: 'object', properties } } }]);
      const { shape } = await chatPrompt(model, 'x', { tools, toolChoice: 'required' });
      const parser = model.createParser({ shape } as ChatPrompt, true);
      parser.close();
      t.throws(() => parser.parse('x', false), { code: 'closed' });
      t.throws(() => model.createParser({ shape } as ChatPrompt, true), { code: 'invalid_argument' });
      kept.push(shape, parser);
    }
    return addon.heap()!.usedBytes;
  };
  const before = await round(0); // more than the cache keeps
  const each = (await round(100) - before) / 100;
  t.comment(`${Math.round(each)} bytes for each request`);
  t.ok(each < 20_000, `${Math.round(each)} bytes stay of each request`);
  await model.close();
});

t.test('grammars that grow in use are bounded together, and the last used ones stay', async (t) => {
  const model = await loadBuiltin();
  const use = async (i: number, brackets: number) => {
    const grammar = `root ::= "a${i}"? list\nlist ::= "[" list "]" | "x"`;
    // Each open bracket is a state of its own.
    (await model.createSampler({ temperature: 0, grammar, grammarKind: 'schema', generationPrompt: '['.repeat(brackets) }, new Int32Array())).close();
    return model.limitGrammars();
  };
  const grammars = Array.from({ length: 8 }, (_, i) => i);
  for (const i of grammars) await use(i, 0);
  t.equal(model.limitGrammars().count, 8);
  const small = model.limitGrammars().bytes;
  const one = (await use(0, 2000)).bytes - small;
  t.ok(one > 100_000, `one grows by ${one} bytes`);
  const most = small + 3.5 * one;
  model.limitGrammars(most);
  for (const i of grammars) await use(i, 2000);
  // The last one grew only after the measurement was requested.
  t.ok(model.limitGrammars().bytes > most - one, `${model.limitGrammars().bytes} bytes`);
  const held = await use(7, 0);
  t.ok(held.bytes <= most, `${held.bytes} of ${most} bytes`);
  t.ok(held.bytes > 2 * one && held.count >= 3, `${held.count} are kept`);
  await model.close();
});
