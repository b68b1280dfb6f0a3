// The same file and messages give the same as llama-server of the same tree: text, tokens, tool
// calls, vectors.
import t from 'tap';
import { startLlamaServer } from './llama-server.js';
import { chat, post, startService, weatherTool, type Message, type Reply } from './service.js';

const user = (content: string): Message => ({ role: 'user', content });
const conversations: { name: string; messages: Message[]; more?: object }[] = [
  ...['Hello!', 'Who are you?', 'What is 8 + 5?', 'What is the capital of Japan?', 'Repeat: seven grey geese', 'Count to 40', 'Tell me a story', 'qwertz uiop 12 ??', 'Schöne Grüße aus Köln 🦙'].map((content) => ({ name: content, messages: [user(content)] })),
  { name: 'a system turn', messages: [{ role: 'system', content: 'You are terse.' }, user('What are you?')] },
  { name: 'three turns', messages: [user('My name is Ifeoma and my number is 4711.'), { role: 'assistant', content: 'Nice to meet you, Ifeoma.' }, user('What is my number?')] },
  { name: 'a cut answer', messages: [user('Tell me a story')], more: { max_tokens: 17 } },
  { name: 'a stop string', messages: [user('Count to 40')], more: { stop: ['12'] } },
  { name: 'penalties', messages: [user('Tell me a story')], more: { repeat_penalty: 1.2, frequency_penalty: 0.5, max_tokens: 60 } },
  { name: 'a schema', messages: [user('My name is Ana and I am 7. Reply in JSON.')], more: { max_tokens: 80, response_format: { type: 'json_schema', json_schema: { name: 'person', schema: { type: 'object', properties: { name: { type: 'string', maxLength: 20 }, age: { type: 'integer' } }, required: ['name', 'age'], additionalProperties: false } } } } },
  { name: 'a grammar', messages: [user('Is the sky blue?')], more: { grammar: 'root ::= ("yes" | "no") "."' } },
  { name: 'a tool call', messages: [user('What is the weather in Paris?')], more: { tools: [weatherTool] } },
  // llama-server allows text before the call, so the prompt asks for an immediate call.
  { name: 'a forced tool call', messages: [user('What is the weather in Rome?')], more: { tools: [weatherTool], tool_choice: 'required', max_tokens: 100 } },
];

t.test('greedy answers equal llama-server’s', async (t) => {
  const reference = await startLlamaServer(t, ['-c', '16384', '-np', '4', '--no-kv-unified']);
  const { url } = await startService(t);
  const { url: ggml } = await startService(t, ['--attention', 'ggml']);
  const essence = ({ choices: [choice], usage }: Reply) => ({
    content: choice!.message.content || null,
    calls: choice!.message.tool_calls?.map((call) => ({
      name: call.function.name,
      arguments: JSON.parse(call.function.arguments) as unknown,
    })),
    finish: choice!.finish_reason,
    prompt: usage.prompt_tokens,
    completion: usage.completion_tokens,
  });
  for (const { name, messages, more } of conversations) {
    const limits = { max_tokens: 300, ...more };
    const theirs = essence(await chat(reference, messages, limits));
    const ours = essence(await chat(url, messages, limits));
    // A stop string that is found late may cost a discarded token.
    if (name === 'a stop string') theirs.completion = ours.completion;
    t.same(ours, theirs, name);
    t.same(essence(await chat(ggml, messages, limits)), ours, `${name}, with ggml's attention`);
  }
});

t.test('streams add up to the whole answer', async (t) => {
  const { url } = await startService(t);
  for (const { name, messages, more } of conversations) {
    const whole = await chat(url, messages, { max_tokens: 200, ...more });
    const response = await post(url, '/v1/chat/completions', { messages, temperature: 0, max_tokens: 200, stream: true, ...more });
    let content = '';
    const calls: { name: string; arguments: string }[] = [];
    let finish = '';
    for (const event of (await response.text()).split('\n\n')) {
      if (!event.startsWith('data: {')) continue;
      const [choice] = (
        JSON.parse(event.slice(6)) as {
          choices: {
            delta: { content?: string | null; tool_calls?: { index: number; function: { name?: string; arguments?: string } }[] };
            finish_reason: string | null;
          }[];
        }
      ).choices;
      content += choice!.delta.content ?? '';
      for (const part of choice!.delta.tool_calls ?? []) {
        calls[part.index] ??= { name: '', arguments: '' };
        calls[part.index]!.name += part.function.name ?? '';
        calls[part.index]!.arguments += part.function.arguments ?? '';
      }
      finish = choice!.finish_reason ?? finish;
    }
    const { message, finish_reason } = whole.choices[0]!;
    t.same({ content, calls, finish }, {
      content: message.content ?? '', finish: finish_reason,
      calls: (message.tool_calls ?? []).map((call) => ({ name: call.function.name, arguments: call.function.arguments })),
    }, name);
  }
});

t.test('embedding vectors equal llama-server’s', async (t) => {
  const reference = await startLlamaServer(t, ['-c', '2048', '-b', '2048', '-ub', '2048', '--embeddings', '--pooling', 'mean']);
  const { url } = await startService(t);
  const input = ['a', 'The llama walks home.', 'naïve café 北京 🦙', 'word '.repeat(300),
    // Read in parts with different contents and lengths.
    'the llama walks home '.repeat(130) + '1 2 3 '.repeat(30), ...Array.from({ length: 29 }, (_, i) => `text ${i} of many`)];
  const vectors = async (base: string) => ((await (await post(base, '/v1/embeddings', { input })).json()) as { data: { embedding: number[] }[] }).data;
  const [theirs, ours] = [await vectors(reference), await vectors(url)];
  t.equal(ours.length, input.length);
  for (const [i, { embedding }] of ours.entries()) {
    const other = theirs[i]!.embedding;
    const cosine = embedding.reduce((sum, x, j) => sum + x * other[j]!, 0) / (Math.hypot(...embedding) * Math.hypot(...other));
    t.ok(cosine >= 0.9999, `input ${i}: cosine ${cosine}`);
    t.ok(Math.abs(Math.hypot(...embedding) - 1) < 1e-5);
  }
});

t.test('log probabilities equal llama-server’s', async (t) => {
  const shape = ['-c', '16384', '-np', '4', '--no-kv-unified'];
  const reference = await startLlamaServer(t, shape);
  // ggml's attention adds up the values in F16, Recua's in F32: so it is judged by a third one,
  // which takes F32 for everything. Recua's must be as near to that as llama-server's own.
  const exact = await startLlamaServer(t, [...shape, '-fa', 'off', '-ctk', 'f32', '-ctv', 'f32']);
  const [{ url: ggml }, { url: own }] = [await startService(t, ['--attention', 'ggml']), await startService(t)];
  interface Told { id: number; logprob: number; top_logprobs: { id: number; logprob: number }[] }
  const told = async (base: string, messages: Message[], more: object): Promise<Told[]> =>
    (
      (await chat(base, messages, { max_tokens: 40, logprobs: true, top_logprobs: 5, cache_prompt: false, ...more })) as unknown as {
        choices: { logprobs: { content: Told[] } }[];
      }
    ).choices[0]!.logprobs.content;
  const kinds: [name: string, messages: Message[], more: object][] = [
    ['plain', [user('Tell me a story')], {}],
    ['to its end', [user('What is 8 + 5?')], { max_tokens: 200 }],
    ['penalties and biases', [user('Tell me a story')], { repeat_penalty: 1.3, presence_penalty: 0.5, logit_bias: { 5: -3 } }],
    ['a tool call', [user('What is the weather in Paris?')], { tools: [weatherTool] }],
    ['samplers by name', [user('Tell me a story')], { samplers: ['top_k', 'temperature'], top_k: 1, temperature: 0.8 }],
  ];
  // By token id: nearly equal ones may swap places.
  const farthest = (some: Told[], others: Told[]): number => {
    const differences = some.flatMap((one, at) => [one, ...one.top_logprobs].flatMap(({ id, logprob }) => {
      const other = others[at]!.top_logprobs.find((top) => top.id === id);
      return other ? [Math.abs(logprob - other.logprob)] : [];
    }));
    t.ok(differences.length >= 4 * some.length);
    return Math.max(...differences);
  };
  // Without the cache of prompts: a last token that is processed alone is rounded otherwise.
  let [ofTheirs, ofOurs] = [0, 0];
  for (const [name, messages, more] of kinds) {
    const [theirs, right] = [await told(reference, messages, more), await told(exact, messages, more)];
    const [withGgml, ours] = [await told(ggml, messages, more), await told(own, messages, more)];
    for (const one of [withGgml, ours, right]) t.same(one.map(({ id }) => id), theirs.map(({ id }) => id), name);
    const apart = farthest(withGgml, theirs);
    t.ok(apart < 1e-3, `${name}: at most ${apart}`);
    ofTheirs = Math.max(ofTheirs, farthest(theirs, right));
    ofOurs = Math.max(ofOurs, farthest(ours, right));
  }
  t.ok(ofOurs <= Math.max(0.02, 1.5 * ofTheirs), `${ofOurs} from F32, llama-server ${ofTheirs}`);
});
