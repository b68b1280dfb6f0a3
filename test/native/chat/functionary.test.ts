// Functionary v3.2, whose calls begin with ">>>" and a name: calls behind a text or another call
// read, their arguments follow the schema, and any other ">>>" is text.
import t from 'tap';
import type { NativeModel } from '#recua/addon/addon.js';
import { chatInput, templateOf, vocabulary } from './exact-history.js';

let model: NativeModel;
t.before(async () => { model = await vocabulary('llama-bpe'); });
t.teardown(() => model.close());

const tool = (name: string, properties: object) => ({ type: 'function', function: { name, description: 'Does.', parameters: { type: 'object', properties, required: Object.keys(properties) } } });
const tools = JSON.stringify([tool('look_at', { at: { type: 'integer' } }), tool('stop', {})]);

/** What an answer is to the parser, and whether the grammar lets a model write it. */
async function read(answer: string, parallelToolCalls: boolean) {
  const input = { ...chatInput([{ role: 'user', content: 'Look' }], templateOf('meetkai-functionary-medium-v3.2.jinja'), 'tool'), tools, parallelToolCalls };
  const { made } = await model.prepareChat(
    { ...input, contextSize: 100_000, strict: new Int32Array(), parseToolCalls: true },
    { temperature: 0 },
  );
  const { sampler, parser } = made!;
  const allowed = await sampler.resume(await model.tokenize(answer, false, true), 0).then(() => true, () => false);
  try {
    parser.parse(answer, false);
    const { content, toolCalls } = parser.message();
    return { allowed, content, calls: toolCalls.map(({ name, arguments: given }) => `${name} ${given}`) };
  } finally {
    sampler.close();
    parser.close();
  }
}

t.test('calls behind a text or another call', async (t) => {
  for (const parallel of [true, false]) {
    t.same(await read('look_at\n{"at": 1}', parallel), { allowed: true, content: '', calls: ['look_at {"at": 1}'] });
    t.same(await read('all\nI look.>>>look_at\n{"at": 1}', parallel), { allowed: true, content: 'I look.', calls: ['look_at {"at": 1}'] });
    t.same(await read('all\n>>> 1 + 1>>>look_at\n\n{"at": 1}', parallel), { allowed: true, content: '>>> 1 + 1', calls: ['look_at {"at": 1}'] });
  }
  t.same(await read('all\nI look.>>>look_at\n{"at": 1}>>>stop\n{}', true), { allowed: true, content: 'I look.', calls: ['look_at {"at": 1}', 'stop {}'] });
});

t.test('the arguments of a call that begins the answer follow the schema', async (t) => {
  t.match(await read('look_at\n{"at": 1}', true), { allowed: true });
  const input = chatInput([{ role: 'user', content: 'Look' }], templateOf('meetkai-functionary-medium-v3.2.jinja'), 'tool', { tools });
  const { made } = await model.prepareChat(
    { ...input, contextSize: 100_000, strict: new Int32Array(), parseToolCalls: true },
    { temperature: 0 },
  );
  await t.rejects(made!.sampler.resume(await model.tokenize('look_at\n{"at": "here"', false, true), 0), { code: 'generation_failed' });
  made!.sampler.close();
  made!.parser.close();
});

t.test('text with the same signs stays text', async (t) => {
  for (const text of ['In Python:\n>>> print(1)\n1', '1 >> 2 >>> 3', '>>>looking', '>>>all\nagain']) {
    t.same(await read(`all\n${text}`, true), { allowed: true, content: text, calls: [] });
  }
});
