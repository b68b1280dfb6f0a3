// The loads: each says how to start the servers, what the clients do, and which numbers matter with
// which goal. A goal is the median ratio Recua / llama-server of one run, by model. `plus` is an
// allowance on top, in the number's unit; `share` is the required fraction of our own greedy rate
// with the same clients; `engine` that of what llama.cpp does with the same load without a server.

export const greedy = { temperature: 0, top_k: 1 };
/** Everything a chat front end sets. */
const sampled = { temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05, repeat_penalty: 1.1, frequency_penalty: 0.1 };
/** What OpenAI's clients send; switches off llama-server's defaults for the rest. */
const nucleus = { temperature: 0.8, top_k: 0, top_p: 0.95, min_p: 0 };
const schema = {
  temperature: 0,
  response_format: {
    type: 'json_schema',
    json_schema: {
      name: 'people', strict: true,
      schema: {
        type: 'array', minItems: 50, maxItems: 60,
        items: {
          type: 'object', required: ['name', 'age', 'tags'], additionalProperties: false,
          properties: {
            name: { type: 'string', minLength: 5, maxLength: 40 }, age: { type: 'integer' },
            tags: { type: 'array', items: { enum: ['red', 'green', 'blue'] }, minItems: 2 },
          },
        },
      },
    },
  },
};

const chat = (clients, requests, tokens, body, more = {}) => ({
  parallel: clients, context: 1024, work: { kind: 'chat', clients, requests, tokens, body, ...more },
});
/** Answers behind this many words already read; most words of the vocabulary are one token. */
const depth = (promptWords, context, goals, { clients = 1, tokens = 64, read = {} } = {}) => ({
  parallel: clients, context, work: { kind: 'depth', clients, tokens, promptWords },
  numbers: { decodeRate: { unit: 'tokens/s', higher: true, goals }, readMs: { unit: 'ms', goals: read } },
});
/** Two agents, eight turns; `turnWords` is how long the result of each tool call is. */
const agents = (context, turnWords) => ({
  parallel: 2, context, fresh: true, work: { kind: 'agents', agents: 2, turns: 8, tokens: 32, systemWords: 2000, turnWords },
  numbers: { seconds: { unit: 's', goals: { '135m': 0.6 } }, evaluatedTokens: { unit: 'tokens' } },
});
const rate = (goals, share, engine) => ({ tokensPerSecond: { unit: 'tokens/s', higher: true, goals, share, engine } });
const engine = { nano: 0.8, '135m': 0.97 };
const firstToken = (p50, p99) => ({
  firstTokenMs: { unit: 'ms', goals: p50 }, firstTokenP99Ms: { unit: 'ms', goals: p99 },
});

/**
 * @type {Record<string, { parallel: number, context: number, embeddings?: boolean, speculation?:
 * boolean, flags?: string[], fresh?: boolean, work?: object, numbers: object }>}
 */
export const loads = {
  '1-client': { ...chat(1, 2, 128, greedy), numbers: { ...rate({ nano: 1.15, '135m': 1 }, undefined, engine), cpuSecondsPer1000: { unit: 's' } } },
  '4-clients': { ...chat(4, 2, 128, greedy), numbers: rate({ nano: 1.4, '135m': 1 }, undefined, engine) },
  '8-clients': { ...chat(8, 2, 128, greedy), numbers: rate({}) },
  '16-clients': { ...chat(16, 2, 96, greedy), numbers: rate({ nano: 1.5, '135m': 1 }, undefined, engine) },
  '32-clients': { ...chat(32, 1, 96, greedy), numbers: rate({}) },
  '64-clients': { ...chat(64, 1, 48, greedy), numbers: rate({ '135m': 1 }, undefined, engine) },
  '128-clients': { ...chat(128, 1, 96, greedy), numbers: rate({}) },
  // Greedy answers of random weights soon loop: as easy to guess as an answer that quotes its
  // prompt.
  'repeat-1': { ...chat(1, 2, 256, greedy, { promptWords: 60 }), speculation: true, numbers: rate({ '135m': 1 }) },
  'repeat-4': { ...chat(4, 2, 256, greedy, { promptWords: 60 }), speculation: true, numbers: rate({ '135m': 1 }) },
  'long-prompts': { ...chat(4, 1, 32, greedy, { promptWords: 500 }), numbers: { ...rate({ '135m': 1 }), ...firstToken({}, {}) } },
  'sampled-1': { ...chat(1, 2, 128, sampled), numbers: rate({ nano: 1.3 }, 0.9) },
  'sampled-16': { ...chat(16, 2, 96, sampled), numbers: rate({ nano: 1.9 }, 0.9) },
  'top-p-1': { ...chat(1, 1, 64, nucleus), numbers: rate({ nano: 7 }, 0.85) },
  'top-p-16': { ...chat(16, 1, 32, nucleus), numbers: rate({ nano: 15 }, 0.85) },
  'schema-1': { ...chat(1, 1, 64, schema), numbers: rate({ nano: 7 }, 0.7) },
  'schema-16': { ...chat(16, 1, 32, schema), numbers: rate({ nano: 18 }, 0.7) },
  'shared-prefix': {
    ...chat(8, 1, 48, greedy, { systemWords: 600 }), context: 2048, fresh: true,
    numbers: { ...rate({ '135m': 3 }), ...firstToken({ '135m': 0.35 }, { '135m': 0.35 }) },
  },
  'second-turn': {
    parallel: 1, context: 4096, work: { kind: 'turns', conversations: 1, turns: 3, tokens: 64, promptWords: 300 },
    numbers: { secondTurnMs: { unit: 'ms', goals: { '135m': 1 } } },
  },
  'taking-turns': {
    parallel: 4, context: 2048, work: { kind: 'turns', conversations: 32, turns: 2, tokens: 16, promptWords: 150 },
    numbers: { secondTurnMs: { unit: 'ms', goals: { '135m': 1 } } },
  },
  'agents-8k': agents(12288, 400),
  'agents-16k': agents(20480, 1400),
  'depth-0': depth(1, 1024, { '135m': 1, '1b': 1 }),
  'depth-2k': depth(2000, 4096, { '135m': 2, '1b': 2 }),
  'depth-8k': depth(8000, 12288, { '135m': 2.5, '1b': 2.5 }, { read: { '135m': 0.6, '1b': 0.6 } }),
  'depth-32k': depth(30000, 32768, { '135m': 3, '1b': 3 }, { tokens: 32 }),
  'depth-2k-8-clients': depth(2000, 4096, { '135m': 3, '1b': 3 }, { clients: 8 }),
  'long-beside-stream': {
    parallel: 2, context: 8192, work: { kind: 'gap', promptWords: 2500, tokens: 400 },
    numbers: { worstGapMs: { unit: 'ms', goals: { '135m': 0.06 } }, longFirstTokenMs: { unit: 'ms', goals: { '135m': 1.25 } } },
  },
  'embed-64': { parallel: 1, context: 2048, embeddings: true, work: { kind: 'embed', texts: 64, words: 10 }, numbers: rate({ '135m': 1.7 }) },
  'embed-1024': { parallel: 1, context: 2048, embeddings: true, work: { kind: 'embed', texts: 1024, words: 10 }, numbers: rate({ '135m': 1.7 }) },
  'embed-16-clients': { parallel: 16, context: 512, embeddings: true, work: { kind: 'embedEach', clients: 16, requests: 8, words: 10 }, numbers: { ...rate({ '135m': 1 }), answerMs: { unit: 'ms' } } },
  'embed-long': { parallel: 1, context: 8192, embeddings: true, work: { kind: 'embed', texts: 1, words: 3000 }, numbers: rate({}) },
  'cold-start': {
    parallel: 4, context: 1024, fresh: true, work: { kind: 'chat', clients: 1, requests: 1, tokens: 1, body: greedy },
    numbers: {
      startMs: { unit: 'ms', goals: { '135m': 1 }, plus: 150 }, firstTokenMs: { unit: 'ms' },
      residentMib: { unit: 'MiB', goals: { '135m': 1 }, plus: 86 },
    },
  },
};

/** The models that a load has goals for. */
export const goalModels = (name) => [...new Set(Object.values(loads[name].numbers).flatMap(({ goals = {} }) => Object.keys(goals)))];
