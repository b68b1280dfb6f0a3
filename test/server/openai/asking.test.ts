import t from 'tap';
import { description } from '../fake-engine.js';
import { WholeAnswer } from '#recua/engine/whole-answer.js';
import type { Finish } from '#recua/engine/api.js';
import type { ChatRequest } from '#recua/engine/protocol.js';
import { Fields } from '#recua/request/fields.js';
import { ChatWriter } from '#recua/server/openai/answer.js';
import { ChatReader, eventsOf, writeChatBody } from '#recua/server/openai/asking.js';
import { readChatRequest } from '#recua/server/openai/chat-request.js';

const request: ChatRequest = {
  messages: JSON.stringify([
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'a\u2028b' },
  ]),
  tools: '',
  toolSources: [],
  toolChoice: 'none',
  parallelToolCalls: undefined,
  constraint: { kind: 'grammar', grammar: 'root ::= "a"' },
  // Each differs from its default.
  sampling: {
    temperature: 0.3,
    topK: 7,
    topP: 0.8,
    minP: 0.1,
    typicalP: 0.9,
    topNSigma: 2,
    repeatPenalty: 1.2,
    penaltyLastN: 33,
    frequencyPenalty: 0.4,
    presencePenalty: -0.5,
    dryMultiplier: 0.6,
    dryBase: 1.5,
    dryAllowedLength: 3,
    dryPenaltyLastN: 44,
    xtcProbability: 0.2,
    xtcThreshold: 0.3,
    mirostat: 2,
    mirostatTau: 4,
    mirostatEta: 0.2,
    seed: 4_000_000_000,
    logitBias: [
      { token: 5, bias: -1 },
      { token: 6, bias: -Infinity },
    ],
    textBias: [{ text: 'no', bias: 2 }],
    ignoreEos: true,
    dynatempRange: 0.5,
    dynatempExponent: 2,
    adaptiveTarget: 0.4,
    adaptiveDecay: 0.5,
    minKeep: 2,
    minTokens: 8,
    samplers: ['top_k', 'min_p'],
    drySequenceBreakers: ['x'],
  },
  maxTokens: 99,
  stop: ['END'],
  enableThinking: false,
  templateKwargs: { style: 'dry' },
  template: '',
  generateMs: 500,
};
const finish: Finish = {
  finishReason: 'length', usage: { promptTokens: 9, cachedTokens: 4, completionTokens: 3, reasoningTokens: 1, draftedTokens: 5, acceptedTokens: 2 },
  timings: { queueMs: 0, promptMs: 12.5, generateMs: 7.25 }, seed: 0, warnings: ['careful'],
};

t.test('a server reads from the body exactly the request that was written', (t) => {
  const read = (asked: ChatRequest) => readChatRequest(Fields.of(JSON.parse(JSON.stringify(writeChatBody(asked, 'm')))), {
    // Defaults other than those of the command line must not matter.
    defaults: { temperature: 1.9, maxTokens: 5, sampling: { topK: 1, repeatPenalty: 9, minP: 0.9 } }, model: description,
  });
  t.match(read(request), { stream: true, includeUsage: true });
  t.strictSame(read(request).request, { ...request, toolSources: [], toolChoice: read(request).request.toolChoice, truncation: 'disabled' });
  const schema = { ...request, constraint: { kind: 'schema' as const, schema: '{"type":"object"}', strict: true, param: '' } };
  t.match(read(schema).request.constraint, { kind: 'schema', schema: '{"type":"object"}', strict: true });
  t.equal(read({ ...request, sampling: { ...request.sampling, seed: undefined } }).request.sampling.seed, undefined);
  t.throws(() => writeChatBody({ ...request, template: 'x' }, 'm'), { code: 'invalid_argument' }, 'what cannot be sent is not left out');
  t.end();
});

t.test('a stream gives the deltas and the end that were written, wherever its bytes are cut', async (t) => {
  const writer = new ChatWriter({ count: 1, includeUsage: true, tells: {} }, 'm');
  const deltas = [{ reasoning: 'Hm.' }, { content: 'grün\u2028\n\n' }, { content: '🦊' }];
  const frames = [
    ...writer.opening(),
    ...deltas.flatMap((delta) => writer.deltas(delta, 0)),
    writer.ping(),
    ...writer.ended(finish, 0),
    ...writer.ending([finish]),
  ];
  const bytes = Buffer.from(frames.map(({ data }) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`).join(''));
  for (const size of [1, 7, bytes.length]) {
    const reader = new ChatReader();
    const said = new WholeAnswer();
    const pieces = async function* () {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
      t.fail('nothing is awaited after the last event');
    };
    for await (const event of eventsOf(pieces())) {
      t.equal(reader.finish(), undefined, 'not whole before its last event');
      said.add(reader.read(event) ?? {});
    }
    t.match(said, { content: 'grün\u2028\n\n🦊', reasoning: 'Hm.' });
    t.strictSame(reader.finish(), finish);
  }
});

t.test('an error in the stream is thrown with its code', (t) => {
  const reader = new ChatReader();
  const event = (error: object) => JSON.stringify({ error: { type: 'x', param: null, ...error } });
  t.throws(() => reader.read(event({ code: 'model_crashed', message: 'It died.', n_ctx: 7 })), { code: 'model_crashed', message: 'It died.', details: { n_ctx: 7 } });
  t.throws(() => reader.read(event({ code: 'no such', message: 'Odd.' })), { code: 'internal_error', message: 'Odd.' });
  t.end();
});

t.test('a reply that no Recua server sends is refused, at once if it has no end', async (t) => {
  const delta = (more: object) => JSON.stringify({ choices: [{ index: 0, delta: { content: 'x' }, finish_reason: null, ...more }] });
  t.strictSame(new ChatReader().read(delta({})), { content: 'x' });
  for (const strange of ['x', 'null', '5', '[]', '{}', '{"choices":[null]}', delta({ delta: null }), delta({ delta: { content: {} } }), delta({ finish_reason: {} }), '{"choices":[],"usage":{"prompt_tokens":"5"}}', '{"choices":[],"timings":5}', '{"choices":[],"warnings":[{}]}']) {
    t.throws(() => new ChatReader().read(strange), { code: 'server_unreachable' }, strange);
  }
  let sent = 0;
  const endless = async function* () {
    for (;; sent++) yield `data: ${'x'.repeat(1 << 20)}`;
  };
  await t.rejects(async () => { for await (const event of eventsOf(endless())) t.fail(event); }, { code: 'server_unreachable', message: /without end/ });
  t.ok(sent < 32, `${sent} MiB were read`);
});
