// 1,000 bodies from a seeded generator: valid requests with something broken, and plain noise. Only
// 2xx and 4xx may come back. Asks for nothing that only the fake engine could say.
import t from 'tap';
import { post, subjectUrl } from './app-under-test.js';

const seed = Number(process.env['RECUA_FUZZ_SEED'] ?? 20_261_121);
const count = 1_000;

/** mulberry32: the same bodies on every run. */
function makeRandom(state: number): () => number {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const random = makeRandom(seed);
const below = (limit: number): number => Math.floor(random() * limit);
const pick = <Item>(items: readonly Item[]): Item => items[below(items.length)];

/** Stands for JSON that JSON.stringify cannot write. */
const literals = ['1e309', '-1e309', '1e-320', '99999999999999999999999', '-0', '0.1e1', '"\\ud800"', '"\\udfff\\ud800x"'];
const strange = (): unknown => pick<() => unknown>([
  () => null, () => true, () => false, () => 0, () => -1, () => 1.5, () => 2 ** 31, () => -(2 ** 31), () => 2 ** 53, () => -(2 ** 63), () => 1e300,
  () => '', () => 'x', () => '\u0000', () => '💥'.repeat(50), () => 'auto', () => 'required', () => [], () => [[]], () => [null], () => [1, 'a', {}], () => {},
  () => ({}), () => ({ type: 'object' }), () => ({ a: { b: { c: [] } } }), () => ({ type: 'json_schema', json_schema: { schema: { type: 'nonsense', $ref: '#/nowhere' } } }),
  () => ({ type: 'function', function: { name: 'f', parameters: { type: 5 } } }), () => `@${pick(literals)}@`, () => ['END', '', 5], () => ({ 5: 1, x: 2 }), () => ({ 99999999: 1 }),
])();

const chatFields = ['messages', 'model', 'stream', 'stream_options', 'max_tokens', 'max_completion_tokens', 'temperature', 'top_p', 'top_k', 'min_p', 'typical_p',
  'top_n_sigma', 'presence_penalty', 'frequency_penalty', 'repeat_penalty', 'repeat_last_n', 'penalty_last_n', 'dry_multiplier', 'dry_base', 'dry_allowed_length',
  'dry_penalty_last_n', 'xtc_probability', 'xtc_threshold', 'mirostat', 'mirostat_tau', 'mirostat_eta', 'seed', 'stop', 'logit_bias', 'grammar', 'response_format',
  'json_schema', 'tools', 'tool_choice', 'parallel_tool_calls', 'chat_template_kwargs', 'enable_thinking', 'reasoning_effort', 'ignore_eos', 'n', 'logprobs',
  'top_logprobs', 'functions', 'function_call', 'audio', 'modalities', 'prediction', 'n_predict', 't_max_predict_ms', 'adaptive_target', 'reasoning_format', 'verbosity', 'user', 'metadata', '__proto__', 'constructor', 'nonsense'];
const messageFields = ['role', 'content', 'name', 'tool_calls', 'tool_call_id', 'reasoning_content', 'function_call'];

function set(object: object, name: string, value: unknown): void {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}

function chatBody(): object {
  const messages = Array.from({ length: 1 + below(3) }, () => ({ role: pick(['system', 'developer', 'user', 'assistant', 'tool']), content: pick(['hi', 'count to three', '']) }));
  const body = { max_tokens: 1 + below(4), messages };
  for (let times = below(4); times > 0; times--) set(body, pick(chatFields), strange());
  if (random() < 0.3) set(pick(messages), pick(messageFields), strange());
  return body;
}

function embeddingsBody(): object {
  const body = { input: pick<unknown>(['text', ['a', 'b'], [1, 2], [[1], [2, 3]], strange(), [strange(), strange()], [[strange()]]]) };
  if (random() < 0.5) set(body, pick(['model', 'encoding_format', 'dimensions', 'input', 'user']), strange());
  return body;
}

function bodyText(chat: boolean): string {
  const text = JSON.stringify(chat ? chatBody() : embeddingsBody()).replace(/"@((?:[^"\\]|\\.)*(?:\\"(?:[^"\\]|\\.)*\\")?)@"/g, (_, literal: string) => literal.replaceAll('\\"', '"').replaceAll('\\\\', '\\'));
  const kind = random();
  if (kind < 0.05) return text.slice(0, below(text.length));
  if (kind < 0.1) {
    const at = below(text.length);
    return text.slice(0, at) + String.fromCharCode(below(256)) + text.slice(at + 1);
  }
  if (kind < 0.12) return pick(['', '{}', '[]', 'null', '0', '"', '{"messages":[{}]}', '{"messages":{"0":{}}}', '['.repeat(10_000), '{"a":'.repeat(1_000), 'NaN', '{"input":NaN}']);
  return text;
}

t.test(`fuzzed bodies get 2xx or 4xx in the shape of OpenAI (seed ${seed})`, async (t) => {
  const url = await subjectUrl(t);
  const statuses: Record<number, number> = {};
  const wrong: string[] = [];
  const one = async (): Promise<void> => {
    const chat = random() < 0.75;
    const body = bodyText(chat);
    const res = await post(`${url}/v1/${chat ? 'chat/completions' : 'embeddings'}`, body);
    const text = await res.text();
    statuses[res.status] = (statuses[res.status] ?? 0) + 1;
    if (res.status >= 500 || (res.status !== 200 && !isErrorBody(text)) || /^data: \{"error"/m.test(text)) wrong.push(`${res.status} for ${body.slice(0, 500)}: ${text.slice(0, 300)}`);
  };
  for (let done = 0; done < count; done += 4) await Promise.all([one(), one(), one(), one()]);
  t.comment(`statuses ${JSON.stringify(statuses)}`);
  t.same(wrong, []);
  t.ok(statuses[400] > count / 4 && statuses[200] > count / 20, 'both sides of the line were met');
  t.equal((await fetch(`${url}/health`)).status, 200);
});

t.test('a body of 64 MiB is a 413', async (t) => {
  const url = await subjectUrl(t);
  const res = await post(`${url}/v1/chat/completions`, `{"messages":[{"role":"user","content":"${'x'.repeat(64 * 1024 * 1024)}"}]}`);
  t.equal(res.status, 413);
});

function isErrorBody(text: string): boolean {
  try {
    const { error } = JSON.parse(text);
    return typeof error.message === 'string' && typeof error.type === 'string' && typeof error.code === 'string' && 'param' in error;
  } catch {
    return false;
  }
}
