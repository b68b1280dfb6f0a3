import t from 'tap';
import { makeConfig } from '#recua/settings/config.js';
import { RecuaError } from '#recua/errors.js';
import { int32Max } from '#recua/request/fields.js';
import { readChatRequest, type ChatBody } from '#recua/server/openai/chat-request.js';
import { Fields } from '#recua/request/fields.js';
import { description } from '../fake-engine.js';

const messages = [{ role: 'user', content: 'hi' }];
const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } };

function read(body: object): ChatBody {
  return readChatRequest(Fields.of(body), { defaults: makeConfig({}), model: description });
}

t.test('absent fields have their documented defaults', async (t) => {
  t.same(read({ messages }), {
    count: 1,
    stream: false,
    tells: {},
    includeUsage: false,
    intervalMs: 0,
    warnings: [],
    customTools: [],
    request: {
      messages: JSON.stringify(messages),
      tools: '',
      toolSources: [],
      toolChoice: 'auto',
      parallelToolCalls: undefined,
      constraint: { kind: 'none' },
      maxTokens: 2048,
      stop: [],
      enableThinking: true,
      templateKwargs: {},
      template: '',
      truncation: 'disabled',
      sampling: {
        temperature: 0.7,
        topK: 40,
        topP: 0.95,
        minP: 0.05,
        typicalP: 1,
        topNSigma: -1,
        repeatPenalty: 1,
        penaltyLastN: 64,
        frequencyPenalty: 0,
        presencePenalty: 0,
        dryMultiplier: 0,
        dryBase: 1.75,
        dryAllowedLength: 2,
        dryPenaltyLastN: 1024,
        xtcProbability: 0,
        xtcThreshold: 0.1,
        mirostat: 0,
        mirostatTau: 5,
        mirostatEta: 0.1,
        seed: undefined,
        logitBias: [],
        ignoreEos: false,
        dynatempRange: 0,
        dynatempExponent: 1,
        adaptiveTarget: -1,
        adaptiveDecay: 0.9,
        minKeep: 0,
        minTokens: 0,
      },
    },
  });
});

t.test('what an assistant refused with is its content, if it has no other', (t) => {
  const { request } = read({ messages: [{ role: 'assistant', refusal: 'No.', content: null }, { role: 'user', content: 'x' }, { role: 'assistant', refusal: null, content: 'Yes.' }] });
  t.match(JSON.parse(request.messages), [{ content: 'No.' }, { content: 'x' }, { content: 'Yes.' }]);
  t.end();
});

t.test('arguments of a call may be the object itself', (t) => {
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: { x: [1] } } };
  const { request } = read({ messages: [{ role: 'assistant', tool_calls: [call] }] });
  t.match(JSON.parse(request.messages), [{ tool_calls: [{ function: { arguments: '{"x":[1]}' } }] }]);
  t.end();
});

t.test('null is the same as absent, for every field', async (t) => {
  const fields = ['model', 'stream', 'max_tokens', 'max_completion_tokens', 'temperature', 'top_p', 'top_k', 'seed', 'stop', 'logit_bias', 'grammar',
    'response_format', 'json_schema', 'stream_options', 'tools', 'tool_choice', 'parallel_tool_calls', 'chat_template_kwargs', 'enable_thinking',
    'reasoning_effort', 'n', 'logprobs', 'top_logprobs', 'functions', 'function_call', 'audio', 'modalities', 'prediction', 'mirostat'];
  t.same(read({ messages, ...Object.fromEntries(fields.map((field) => [field, null])) }), read({ messages }));
});

t.test('unknown and neutral fields are ignored', async (t) => {
  t.same(read({
    messages, unheard_of: { x: 1 }, user: 'u', metadata: {}, store: true, service_tier: 'auto', n: 1, logprobs: false, top_logprobs: 0, functions: [],
    function_call: 'none', modalities: ['text'], samplers: [], lora: [], dynatemp_range: 0, add_generation_prompt: true, dry_sequence_breakers: ['\n'],
    adaptive_target: -1, adaptive_decay: 0.9, n_indent: 0, min_keep: 0, reasoning_budget_tokens: -1, reasoning_format: 'auto', parse_tool_calls: true,
    return_progress: false, timings_per_token: false, response_fields: [], verbosity: 'medium', cache_prompt: true, n_keep: 0,
  }), read({ messages }));
});

t.test('sampling fields reach the engine', async (t) => {
  const { sampling } = read({
    messages,
    temperature: 0.2,
    top_k: 5,
    top_p: 0.5,
    min_p: 0.1,
    typical_p: 0.9,
    top_n_sigma: 1,
    repeat_penalty: 1.1,
    repeat_last_n: 32,
    frequency_penalty: 0.5,
    presence_penalty: -0.5,
    dry_multiplier: 0.8,
    dry_base: 2,
    dry_allowed_length: 3,
    dry_penalty_last_n: 50,
    xtc_probability: 0.5,
    xtc_threshold: 0.2,
    mirostat: 2,
    mirostat_tau: 4,
    mirostat_eta: 0.2,
    seed: 7,
    logit_bias: { 5: -100, 99: 1.5, no: false },
    ignore_eos: true,
    dynatemp_range: 0.3,
    dynatemp_exponent: 2,
    adaptive_target: 0.5,
    adaptive_decay: 0.8,
    min_keep: 3,
    min_tokens: 9,
    samplers: ['Top-K', 'typical_p', 'minp'],
    dry_sequence_breakers: ['\n', '\n'],
  }).request;
  t.same(sampling, {
    temperature: 0.2,
    topK: 5,
    topP: 0.5,
    minP: 0.1,
    typicalP: 0.9,
    topNSigma: 1,
    repeatPenalty: 1.1,
    penaltyLastN: 32,
    frequencyPenalty: 0.5,
    presencePenalty: -0.5,
    dryMultiplier: 0.8,
    dryBase: 2,
    dryAllowedLength: 3,
    dryPenaltyLastN: 50,
    xtcProbability: 0.5,
    xtcThreshold: 0.2,
    mirostat: 2,
    mirostatTau: 4,
    mirostatEta: 0.2,
    seed: 7,
    logitBias: [
      { token: 5, bias: -100 },
      { token: 99, bias: 1.5 },
    ],
    ignoreEos: true,
    dynatempRange: 0.3,
    dynatempExponent: 2,
    adaptiveTarget: 0.5,
    adaptiveDecay: 0.8,
    minKeep: 3,
    minTokens: 9,
    samplers: ['top_k', 'typ_p', 'min_p'],
    drySequenceBreakers: ['\n'],
    textBias: [{ text: 'no', bias: -Infinity }],
  });
});

t.test('numbers that native code could choke on are made safe', async (t) => {
  const sampling = (body: object) => read({ messages, ...body }).request.sampling;
  t.equal(sampling({ temperature: 1e-40 }).temperature, 0, 'logits divided by it would overflow');
  t.equal(sampling({ penalty_last_n: 2_000_000_000 }).penaltyLastN, 1024, 'no ring buffer larger than the context');
  t.equal(sampling({ penalty_last_n: -1 }).penaltyLastN, 1024);
  t.equal(sampling({ seed: -1 }).seed, undefined, 'random');
  t.equal(sampling({ seed: 2 ** 40 + 3 }).seed, 3, 'the low 32 bits');
  t.equal(sampling({ seed: 2 ** 62 + 2 ** 20 }).seed, 2 ** 20, 'of 64');
});

t.test('both names of the token limit count, the newer one first', async (t) => {
  t.equal(read({ messages, max_tokens: 5 }).request.maxTokens, 5);
  t.equal(read({ messages, max_tokens: -1 }).request.maxTokens, int32Max);
  t.equal(read({ messages, n_cmpl: 2 }).count, 2);
  t.equal(read({ messages, max_completion_tokens: 6 }).request.maxTokens, 6);
  t.equal(read({ messages, max_tokens: 5, max_completion_tokens: 6 }).request.maxTokens, 6);
  t.equal(read({ messages, max_tokens: 100_000 }).request.maxTokens, 100_000, 'the setting is a default, no bound');
});

t.test('n_predict is the token limit under its llama-server name, and -1 leaves the bound to the context', async (t) => {
  t.equal(read({ messages, n_predict: 7 }).request.maxTokens, 7);
  t.equal(read({ messages, n_predict: -1 }).request.maxTokens, 2 ** 31 - 1);
  t.equal(read({ messages, n_predict: 7, max_tokens: 7 }).request.maxTokens, 7);
  t.equal(read({ messages, n_predict: null, max_tokens: 5 }).request.maxTokens, 5);
  t.throws(() => read({ messages, n_predict: 7, max_completion_tokens: 5 }), { message: /Expected n_predict or max_completion_tokens, got both/ });
});

t.test('the time limit of generation reaches the engine; -1 and 0 mean no limit', async (t) => {
  t.equal(read({ messages, t_max_predict_ms: 1500 }).request.generateMs, 1500);
  for (const off of [0, -1, null]) t.same(read({ messages, t_max_predict_ms: off }), read({ messages }));
});

t.test('content may be null, empty or parts in every role, and absent in answers and results', async (t) => {
  for (const role of ['system', 'developer', 'user', 'assistant', 'tool']) {
    const engineRole = role === 'developer' ? 'system' : role;
    for (const [message, content] of [
      [{ role, content: null }, ''], [{ role, content: '' }, ''], [{ role, content: [] }, ''],
      [{ role, content: [{ type: 'text', text: 'a' }, { type: 'text', text: 'b' }] }, [{ type: 'text', text: 'a' }, { type: 'text', text: 'b' }]],
    ] as const) {
      t.same(JSON.parse(read({ messages: [message] }).request.messages), [{ role: engineRole, content }]);
    }
    if (role === 'assistant' || role === 'tool') t.same(JSON.parse(read({ messages: [{ role }] }).request.messages), [{ role, content: '' }]);
    else t.throws(() => read({ messages: [{ role, contnt: 'a' }] }), { code: 'invalid_type', param: 'messages[0].content' }, role);
  }
});

t.test('tool calls, their results, names and reasoning are kept', async (t) => {
  const call = { id: 'call_1', type: 'function' as const, function: { name: 'f', arguments: '{"a":1}' } };
  t.same(JSON.parse(read({ messages: [
    { role: 'user', content: 'q', name: 'ann' },
    { role: 'assistant', content: null, tool_calls: [call], reasoning_content: 'hm', refusal: null, audio: null, function_call: null },
    { role: 'tool', content: '1', tool_call_id: 'call_1' }, { role: 'tool', content: '2', tool_call_id: null },
    { role: 'assistant', content: 'ok', tool_calls: [] },
  ] }).request.messages), [
    { role: 'user', content: 'q', name: 'ann' },
    { role: 'assistant', content: null, reasoning_content: 'hm', tool_calls: [call] },
    { role: 'tool', content: '1', tool_call_id: 'call_1' }, { role: 'tool', content: '2' },
    { role: 'assistant', content: 'ok' },
  ]);
});

t.test('a named function is forced by offering it alone', async (t) => {
  const other = { type: 'function', function: { name: 'g', description: 'G', strict: true } };
  const { tools, toolSources, toolChoice, parallelToolCalls } = read({
    messages, tools: [tool, other], tool_choice: { type: 'function', function: { name: 'g' } }, parallel_tool_calls: false,
  }).request;
  t.same(JSON.parse(tools), [other]);
  t.same({ toolSources, toolChoice, parallelToolCalls }, { toolSources: [{ name: 'g', strict: true, param: 'tools[1].function.parameters' }], toolChoice: 'required', parallelToolCalls: false });
  t.equal(read({ messages, tools: [tool], tool_choice: 'required' }).request.toolChoice, 'required');
  t.equal(read({ messages, tools: [tool], tool_choice: 'none' }).request.toolChoice, 'none');
});

t.test('formats and grammars become one constraint', async (t) => {
  const constraint = (body: object) => read({ messages, ...body }).request.constraint;
  const schema = { type: 'object', properties: { a: { type: 'string' } } };
  const text = JSON.stringify(schema);
  t.same(constraint({ grammar: 'root ::= "a"' }), { kind: 'grammar', grammar: 'root ::= "a"' });
  t.same(constraint({ grammar: '' }), { kind: 'none' });
  t.same(constraint({ response_format: { type: 'text' } }), { kind: 'none' });
  t.same(constraint({ response_format: { type: 'json_object' } }), { kind: 'schema', schema: '{"type":"object"}', strict: false, param: 'response_format.schema' });
  t.same(constraint({ response_format: { type: 'json_object', schema } }), { kind: 'schema', schema: text, strict: false, param: 'response_format.schema' });
  t.same(constraint({ response_format: { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } } }), { kind: 'schema', schema: text, strict: true, param: 'response_format.json_schema.schema' });
  t.match(constraint({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } }), { strict: false });
  t.same(constraint({ json_schema: schema }), { kind: 'schema', schema: text, strict: false, param: 'json_schema' });
  t.same(constraint({ grammar: 'root ::= "a"', tools: [tool], tool_choice: 'none' }).kind, 'grammar');
});

t.test('the most specific setting of thinking wins', async (t) => {
  const thinking = (body: object) => {
    const { enableThinking, templateKwargs } = read({ messages, ...body }).request;
    return [enableThinking, templateKwargs];
  };
  t.same(thinking({ reasoning_effort: 'none' }), [false, {}]);
  t.same(thinking({ reasoning_effort: 'high' }), [true, { reasoning_effort: 'high' }]);
  t.same(thinking({ enable_thinking: false, reasoning_effort: 'low' }), [false, { reasoning_effort: 'low' }]);
  t.same(thinking({ enable_thinking: true }), [true, { enable_thinking: true }], 'some templates think only where they are asked by name');
  t.same(thinking({ chat_template_kwargs: { enable_thinking: false, x: [1] }, enable_thinking: true }), [false, { x: [1] }]);
});

t.test('stop is a string or a list', async (t) => {
  t.same(read({ messages, stop: 'END' }).request.stop, ['END']);
  t.same(read({ messages, stop: ['a', 'b'] }).request.stop, ['a', 'b']);
  t.same(read({ messages, stop: [] }).request.stop, []);
});

t.test('every wrong type, range or combination is refused by name', async (t) => {
  const user = (content: unknown) => ({ messages: [{ role: 'user', content }] });
  const assistant = (call: unknown) => ({ messages: [{ role: 'assistant', tool_calls: [call] }] });
  const cases: [object, string, string][] = [
    [{ messages: undefined }, 'invalid_type', 'messages'], [{ messages: 'hi' }, 'invalid_type', 'messages'], [{ messages: [] }, 'invalid_value', 'messages'],
    [{ messages: new Array(10_001).fill(messages[0]) }, 'invalid_value', 'messages'],
    [{ messages: ['hi'] }, 'invalid_type', 'messages[0]'], [{ messages: [null] }, 'invalid_type', 'messages[0]'], [{ messages: [{}] }, 'invalid_type', 'messages[0].role'],
    [{ messages: [{ role: 'god' }] }, 'invalid_value', 'messages[0].role'], [{ messages: [{ role: 1 }] }, 'invalid_type', 'messages[0].role'],
    [user(5), 'invalid_type', 'messages[0].content'], [user({}), 'invalid_type', 'messages[0].content'], [user(['hi']), 'invalid_type', 'messages[0].content[0]'],
    [user([{}]), 'invalid_type', 'messages[0].content[0].type'], [user([{ type: 'text' }]), 'invalid_type', 'messages[0].content[0].text'],
    [user([{ type: 'text', text: 'a' }, { type: 'image_url', image_url: { url: 'x' } }]), 'unsupported_content', 'messages[0].content[1]'],
    [{ messages: [{ role: 'user', content: '', name: 5 }] }, 'invalid_type', 'messages[0].name'],
    [{ messages: [{ role: 'assistant', function_call: { name: 'f' } }] }, 'unsupported_parameter', 'messages[0].function_call'],
    [assistant(5), 'invalid_type', 'messages[0].tool_calls[0]'], [assistant({}), 'invalid_type', 'messages[0].tool_calls[0].function'],
    [assistant({ function: { name: 'f', arguments: 5 } }), 'invalid_type', 'messages[0].tool_calls[0].function.arguments'],
    [assistant({ function: { name: '', arguments: '' } }), 'invalid_value', 'messages[0].tool_calls[0].function.name'],
    [assistant({ type: 'custom', function: { name: 'f', arguments: '' } }), 'invalid_type', 'messages[0].tool_calls[0].custom'],
    [{ messages: [{ role: 'tool', tool_call_id: 5 }] }, 'invalid_type', 'messages[0].tool_call_id'],
    [{ stream: 'yes' }, 'invalid_type', 'stream'], [{ stream_options: true }, 'invalid_type', 'stream_options'],
    [{ stream_options: { include_usage: 1 } }, 'invalid_type', 'stream_options.include_usage'],
    [{ max_tokens: 0 }, 'invalid_value', 'max_tokens'], [{ max_tokens: -2 }, 'invalid_value', 'max_tokens'], [{ max_tokens: 1.5 }, 'invalid_type', 'max_tokens'],
    [{ max_tokens: '5' }, 'invalid_type', 'max_tokens'], [{ max_tokens: Infinity }, 'invalid_type', 'max_tokens'], [{ max_completion_tokens: 2 ** 31 }, 'invalid_value', 'max_completion_tokens'],
    [{ max_completion_tokens: 5, max_tokens: 'x' }, 'invalid_type', 'max_tokens'],
    [{ n_predict: 0 }, 'invalid_value', 'n_predict'], [{ n_predict: -2 }, 'invalid_value', 'n_predict'], [{ n_predict: '5' }, 'invalid_type', 'n_predict'],
    [{ n_predict: 5, max_tokens: 6 }, 'invalid_value', 'n_predict'], [{ n_predict: -1, max_completion_tokens: 6 }, 'invalid_value', 'n_predict'],
    [{ t_max_predict_ms: 'x' }, 'invalid_type', 't_max_predict_ms'], [{ t_max_predict_ms: -2 }, 'invalid_value', 't_max_predict_ms'],
    [{ adaptive_target: 1.5 }, 'invalid_value', 'adaptive_target'], [{ n: 129 }, 'invalid_value', 'n'], [{ n_cmpl: 0 }, 'invalid_value', 'n_cmpl'],
    [{ n_indent: 4 }, 'unsupported_parameter', 'n_indent'], [{ min_keep: -3 }, 'invalid_value', 'min_keep'],
    [{ samplers: ['top_k', 'top_q'] }, 'invalid_value', 'samplers[1]'], [{ samplers: 'kz' }, 'invalid_value', 'samplers'], [{ samplers: 5 }, 'invalid_type', 'samplers'],
    [{ samplers: ['top_k', 'top-k'] }, 'invalid_value', 'samplers'], [{ samplers: ['infill'] }, 'invalid_value', 'samplers'], [{ samplers: ['infill', 'top_k'], top_k: 40 }, 'invalid_value', 'samplers'],
    [{ samplers: ['top_k', 'infill'], top_k: 257 }, 'invalid_value', 'samplers'], [{ samplers: 'ki', top_k: 0 }, 'invalid_value', 'samplers'],
    [{ dry_multiplier: 1, dry_sequence_breakers: Array.from({ length: 17 }, (_, at) => `${at}`) }, 'invalid_value', 'dry_sequence_breakers'],
    [{ dry_multiplier: 1, dry_sequence_breakers: ['\n', 'é'.repeat(21)] }, 'invalid_value', 'dry_sequence_breakers[1]'],
    [{ dry_multiplier: 1, dry_sequence_breakers: ['a\0b'] }, 'invalid_value', 'dry_sequence_breakers[0]'],
    [{ samplers: ['constructor'] }, 'invalid_value', 'samplers[0]'], [{ dynatemp_range: -1 }, 'invalid_value', 'dynatemp_range'], [{ min_tokens: 1.5 }, 'invalid_type', 'min_tokens'],
    [{ reasoning_budget_tokens: -2 }, 'invalid_value', 'reasoning_budget_tokens'], [{ thinking_budget_tokens: '0' }, 'invalid_type', 'thinking_budget_tokens'],
    [{ reasoning_format: 'none' }, 'unsupported_parameter', 'reasoning_format'], [{ parse_tool_calls: false }, 'unsupported_parameter', 'parse_tool_calls'],
    [{ echo: true }, 'unsupported_parameter', 'echo'], [{ return_tokens: 1 }, 'invalid_type', 'return_tokens'],
    [{ stream: true, return_progress: 1 }, 'invalid_type', 'return_progress'], [{ stream: true, timings_per_token: 'x' }, 'invalid_type', 'timings_per_token'],
    [{ response_fields: ['content'] }, 'unsupported_parameter', 'response_fields'], [{ verbosity: 'loud' }, 'invalid_value', 'verbosity'],
    [{ temperature: -0.1 }, 'invalid_value', 'temperature'], [{ temperature: 101 }, 'invalid_value', 'temperature'], [{ temperature: Infinity }, 'invalid_type', 'temperature'],
    [{ temperature: [] }, 'invalid_type', 'temperature'], [{ temperature: true }, 'invalid_type', 'temperature'],
    [{ top_p: 1.1 }, 'invalid_value', 'top_p'], [{ top_k: 2.5 }, 'invalid_type', 'top_k'], [{ top_k: 2 ** 31 }, 'invalid_value', 'top_k'], [{ min_p: -1 }, 'invalid_value', 'min_p'],
    [{ frequency_penalty: 3 }, 'invalid_value', 'frequency_penalty'], [{ presence_penalty: 'x' }, 'invalid_type', 'presence_penalty'],
    [{ repeat_penalty: 0 }, 'invalid_value', 'repeat_penalty'], [{ repeat_last_n: -2 }, 'invalid_value', 'repeat_last_n'], [{ mirostat: 3 }, 'invalid_value', 'mirostat'],
    [{ dry_base: 0.5 }, 'invalid_value', 'dry_base'], [{ dry_multiplier: 1, dry_sequence_breakers: [] }, 'invalid_value', 'dry_sequence_breakers'],
    [{ seed: 1.5 }, 'invalid_type', 'seed'], [{ seed: 1e20 }, 'invalid_value', 'seed'], [{ ignore_eos: 1 }, 'invalid_type', 'ignore_eos'],
    [{ stop: '' }, 'invalid_value', 'stop'], [{ stop: 5 }, 'invalid_type', 'stop'], [{ stop: ['a', ''] }, 'invalid_value', 'stop[1]'], [{ stop: [1] }, 'invalid_type', 'stop[0]'],
    [{ stop: new Array(17).fill('x') }, 'invalid_value', 'stop'], [{ stop: 'x'.repeat(2000) }, 'invalid_value', 'stop'],
    [{ logit_bias: 5 }, 'invalid_type', 'logit_bias'], [{ logit_bias: { x: 'y' } }, 'invalid_type', 'logit_bias.x'], [{ logit_bias: [[5]] }, 'invalid_type', 'logit_bias[0]'],
    [{ logit_bias: [[5, true]] }, 'invalid_type', 'logit_bias[0]'], [{ logit_bias: [['', 1]] }, 'invalid_value', 'logit_bias[0]'], [{ logit_bias: { 100: 1 } }, 'invalid_value', 'logit_bias.100'],
    [{ logit_bias: { 5: 101 } }, 'invalid_value', 'logit_bias.5'], [{ logit_bias: { 5: 'x' } }, 'invalid_type', 'logit_bias.5'],
    [{ grammar: 5 }, 'invalid_type', 'grammar'], [{ grammar: 'root ::= "a"', json_schema: {} }, 'invalid_value', 'grammar'],
    [{ grammar: 'root ::= "a"', tools: [tool] }, 'invalid_value', 'grammar'], [{ json_schema: 'x' }, 'invalid_type', 'json_schema'],
    [{ json_schema: {}, response_format: { type: 'json_object' } }, 'invalid_value', 'json_schema'],
    [{ response_format: 'json' }, 'invalid_type', 'response_format'], [{ response_format: {} }, 'invalid_type', 'response_format.type'],
    [{ response_format: { type: 'xml' } }, 'invalid_value', 'response_format.type'], [{ response_format: { type: 'json_schema' } }, 'invalid_type', 'response_format.json_schema'],
    [{ response_format: { type: 'json_schema', json_schema: { name: 'x' } } }, 'invalid_type', 'response_format.json_schema.schema'],
    [{ tools: {} }, 'invalid_type', 'tools'], [{ tools: [5] }, 'invalid_type', 'tools[0]'], [{ tools: [{}] }, 'invalid_type', 'tools[0].type'],
    [{ tools: [{ type: 'web_search' }] }, 'unsupported_parameter', 'tools[0].type'], [{ tools: [{ type: 'function' }] }, 'invalid_type', 'tools[0].function'],
    [{ tools: [{ type: 'function', function: {} }] }, 'invalid_type', 'tools[0].function.name'], [{ tools: new Array(1025).fill(tool) }, 'invalid_value', 'tools'],
    [{ tools: [{ type: 'function', function: { name: 'f', parameters: 'x' } }] }, 'invalid_type', 'tools[0].function.parameters'],
    [{ tool_choice: 'maybe' }, 'invalid_value', 'tool_choice'], [{ tool_choice: 5 }, 'invalid_type', 'tool_choice'], [{ tool_choice: 'required' }, 'invalid_value', 'tool_choice'],
    [{ tools: [tool], tool_choice: { type: 'function', function: { name: 'x' } } }, 'invalid_value', 'tool_choice.function.name'],
    [{ tools: [tool], tool_choice: {} }, 'invalid_type', 'tool_choice.function'], [{ parallel_tool_calls: 'no' }, 'invalid_type', 'parallel_tool_calls'],
    [{ chat_template_kwargs: [] }, 'invalid_type', 'chat_template_kwargs'], [{ chat_template_kwargs: { enable_thinking: 'false' } }, 'invalid_type', 'chat_template_kwargs.enable_thinking'],
    [{ enable_thinking: 'no' }, 'invalid_type', 'enable_thinking'], [{ reasoning_effort: 'much' }, 'invalid_value', 'reasoning_effort'],
    [{ n: 0 }, 'invalid_value', 'n'], [{ n: 'x' }, 'invalid_type', 'n'],
    [{ logprobs: 1 }, 'invalid_type', 'logprobs'], [{ top_logprobs: 2 }, 'invalid_value', 'top_logprobs'],
    [{ logprobs: true, top_logprobs: 21 }, 'invalid_value', 'top_logprobs'], [{ n_probs: 101 }, 'invalid_value', 'n_probs'],
    [{ functions: [{ name: 'f' }] }, 'unsupported_parameter', 'functions'], [{ function_call: { name: 'f' } }, 'unsupported_parameter', 'function_call'],
    [{ audio: { voice: 'x' } }, 'unsupported_parameter', 'audio'], [{ modalities: ['text', 'audio'] }, 'unsupported_parameter', 'modalities'],
    [{ prediction: { type: 'content' } }, 'invalid_type', 'prediction.content'], [{ prediction: { content: 'x' } }, 'invalid_type', 'prediction.type'],
    [{ prediction: { type: 'content', content: [{ type: 'image' }] } }, 'invalid_value', 'prediction.content[0].type'], [{ continue_final_message: 'all' }, 'invalid_type', 'continue_final_message'],
  ];
  for (const [body, code, param] of cases) {
    const what = JSON.stringify(body).slice(0, 80);
    try {
      read({ messages, ...body });
      t.fail(`accepted ${what}`);
    } catch (error) {
      if (!(error instanceof RecuaError)) throw error;
      t.same([error.code, error.param], [code, param], `${what}: ${error.message}`);
      t.equal(error.status, 400);
    }
  }
});

t.test('the sentence says what was expected, for what, and what came', async (t) => {
  t.throws(() => read({ messages, max_tokens: 'many' }), { message: 'Expected an integer for max_tokens, got "many".' });
  t.throws(() => read({ messages, top_p: 2 }), { message: 'Expected a number from 0 to 1 for top_p, got 2.' });
  t.throws(() => read({ messages, temperature: Infinity }), { message: 'Expected a number for temperature, got Infinity.' });
});
