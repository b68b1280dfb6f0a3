// The clients of a load, in their own process that knows only HTTP. Argument: one JSON object {
// url, kind, … } of loads.mjs. Prints one JSON line of numbers: tokens, seconds, tokensPerSecond,
// and what the kind measures, in milliseconds. `repeat` runs the load that many times: tokens are
// summed, the other numbers are those of the last run.
import { Agent, request } from 'node:http';
import { greedy } from './loads.mjs';

const { url, kind, repeat = 1, ...load } = JSON.parse(process.argv[2]);

const nouns = ['rivers', 'mountains', 'bread', 'trains', 'winter', 'music', 'bridges', 'gardens', 'letters', 'clocks', 'maps', 'wool', 'salt', 'glass', 'ink', 'stone'];

/** This many words, different for each seed. */
function words(count, seed) {
  let state = (seed * 2654435761 + 12345) >>> 0;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return nouns[state >>> 28];
  }).join(' ');
}

/** Of the size that coding agents send: some 2,000 tokens. */
const tools = ['read_file', 'write_file', 'list_files', 'search', 'run_command', 'fetch_page', 'apply_patch', 'ask_user'].map((name, i) => ({
  type: 'function',
  function: {
    name, description: words(80, i),
    parameters: {
      type: 'object', required: ['path'],
      properties: Object.fromEntries(['path', 'pattern', 'limit', 'mode'].map((key, k) => [key, { type: 'string', description: words(25, i * 10 + k) }])),
    },
  },
}));

// Uses node:http directly and parses only lines that contain numbers: clients share the machine
// with the server they measure, so their CPU time slows it.
const agent = new Agent({ keepAlive: true, maxSockets: Infinity });

/** Sends a request and resolves with its response, a readable text stream. */
function post(path, body) {
  const text = JSON.stringify(body);
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
  const send = () => new Promise((resolve, reject) => {
    request(`${url}${path}`, { method: 'POST', headers, agent }, resolve).on('error', reject).end(text);
  });
  // A server may close an idle connection just as it is reused: retry, as OpenAI's clients do.
  return send().catch(send).catch(send).catch(send);
}

async function whole(response) {
  let text = '';
  response.setEncoding('utf8');
  for await (const part of response) text += part;
  if (response.statusCode !== 200) throw new Error(`${response.statusCode} ${text}`);
  return text;
}

/**
 * One streamed answer: its text (if `keep` or `onText` wants it), its token count, the time to its
 * first piece, and the longest silence after that.
 */
async function ask(messages, tokens, body, { keep = false, onText } = {}) {
  const start = performance.now();
  const response = await post('/v1/chat/completions', {
    messages, max_tokens: tokens, ignore_eos: true, stream: true, stream_options: { include_usage: true }, ...body,
  });
  if (response.statusCode !== 200) await whole(response);
  let firstMs = 0;
  let lastMs = 0;
  let worstGapMs = 0;
  let text = '';
  let usage;
  let rest = '';
  const take = (line) => {
    if (!line.startsWith('data: {')) return;
    if (line.includes('"error":{')) throw new Error(line);
    // The last chunk of llama-server has usage; its other chunks and Recua's lack the field or have
    // null.
    if (line.includes('"usage":{')) usage = JSON.parse(line.slice(6)).usage;
    if (!line.includes('"delta":{"content":"')) return;
    const nowMs = performance.now() - start;
    if (firstMs === 0) firstMs = nowMs;
    else worstGapMs = Math.max(worstGapMs, nowMs - lastMs);
    lastMs = nowMs;
    if (keep || onText) text += JSON.parse(line.slice(6)).choices[0].delta.content;
    onText?.(text);
  };
  response.setEncoding('utf8');
  await new Promise((resolve, reject) => {
    response.on('data', (part) => {
      try {
        const lines = (rest + part).split('\n');
        rest = lines.pop();
        lines.forEach(take);
      } catch (error) {
        reject(error);
      }
    });
    response.on('end', resolve).on('error', reject);
  });
  if (!usage?.completion_tokens) throw new Error(`The stream ended without ${usage ? 'a token' : 'usage'}.`);
  // With random weights, a few tokens may all lack text.
  if (firstMs === 0) firstMs = performance.now() - start;
  return {
    text,
    count: usage.completion_tokens,
    promptTokens: usage.prompt_tokens,
    cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
    firstMs,
    firstAt: start + firstMs,
    lastAt: start + Math.max(lastMs, firstMs),
    worstGapMs,
  };
}

const at = (values, share) => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
};

const kinds = {
  /** N clients, each sending its requests one after another, with new ones in each round. */
  async chat({ round = 0, clients, requests, tokens, body, promptWords = 0, systemWords = 0 }) {
    const system = systemWords > 0 ? [{ role: 'system', content: words(systemWords, 7) }] : [];
    const answers = await Promise.all(Array.from({ length: clients }, async (_, client) => {
      const own = [];
      for (let request = 0; request < requests; request++) {
        const seed = client * 1000 + request;
        const subject = `${nouns[client % nouns.length]} and ${nouns[(client + request * 7 + 3) % nouns.length]}`;
        const content = `${round}/${client}/${request}: Tell me a long story about ${subject}, with names, places and a good ending. ${words(promptWords, seed)}`;
        own.push(await ask([...system, { role: 'user', content }], tokens, body));
      }
      return own;
    }));
    const all = answers.flat();
    const firsts = all.map(({ firstMs }) => firstMs);
    return {
      tokens: all.reduce((sum, { count }) => sum + count, 0),
      promptTokens: all[0].promptTokens,
      firstTokenMs: at(firsts, 0.5),
      firstTokenP99Ms: at(firsts, 0.99),
    };
  },

  /** Conversations that take turns; measures how soon a later turn's answer begins. */
  async turns({ conversations, turns, tokens, promptWords }) {
    const chats = Array.from({ length: conversations }, (_, i) => [{ role: 'user', content: `${i}: ${words(promptWords, i)}` }]);
    const later = [];
    let total = 0;
    for (let turn = 0; turn < turns; turn++) {
      for (const [i, messages] of chats.entries()) {
        const answer = await ask(messages, tokens, greedy, { keep: true });
        total += answer.count;
        if (turn > 0) later.push(answer.firstMs);
        messages.push({ role: 'assistant', content: answer.text }, { role: 'user', content: `And ${words(8, i + turn)}?` });
      }
    }
    return { tokens: total, secondTurnMs: at(later, 0.5) };
  },

  /**
   * Answers behind prompts that are already in the cache: how long prefill takes, then the rate of
   * all clients together.
   */
  async depth({ round = 0, clients, tokens, promptWords }) {
    const chats = Array.from({ length: clients }, (_, client) => [{ role: 'user', content: `${round}/${client}: ${words(promptWords, client)}` }]);
    const started = performance.now();
    await Promise.all(chats.map((messages) => ask(messages, 1, greedy)));
    const readMs = performance.now() - started;
    const answers = await Promise.all(chats.map((messages) => ask(messages, tokens, greedy)));
    const rate = answers.reduce((sum, { count, firstAt, lastAt }) => sum + (count - 1) / (lastAt - firstAt), 0) * 1000;
    return {
      tokens: answers.reduce((sum, { count }) => sum + count, clients),
      promptTokens: answers[0].promptTokens,
      readMs,
      decodeRate: rate,
    };
  },

  /**
   * Agents at once. They share a system prompt and tools; each turn is a call and its result, of
   * many words. Counts the prompt tokens that were not cached.
   */
  async agents({ round = 0, agents, turns, tokens, systemWords, turnWords }) {
    const system = { role: 'system', content: `${round} ${words(systemWords, 7)}` };
    const body = { ...greedy, tools };
    const all = await Promise.all(Array.from({ length: agents }, async (_, agent) => {
      const messages = [system, { role: 'user', content: `${agent}: ${words(20, agent)}` }];
      const answers = [];
      for (let turn = 0; turn < turns; turn++) {
        const answer = await ask(messages, tokens, body, { keep: true });
        answers.push(answer);
        const id = `call${agent}x${turn}`;
        const name = tools[turn % tools.length].function.name;
        messages.push(
          { role: 'assistant', content: answer.text, tool_calls: [{ id, type: 'function', function: { name, arguments: JSON.stringify({ path: words(2, turn) }) } }] },
          { role: 'tool', tool_call_id: id, content: words(turnWords, agent * 100 + turn) },
        );
      }
      return answers;
    }));
    const answers = all.flat();
    const sum = (number) => answers.reduce((total, answer) => total + answer[number], 0);
    return { tokens: sum('count'), promptTokens: answers.at(-1).promptTokens, evaluatedTokens: sum('promptTokens') - sum('cachedTokens') };
  },

  /** A stream runs while a long prompt arrives. */
  async gap({ promptWords, tokens }) {
    let begun;
    const running = new Promise((resolve) => { begun = resolve; });
    let pieces = 0;
    const stream = ask([{ role: 'user', content: 'Tell me a story without an end.' }], tokens, greedy, { onText: () => { if (++pieces === 20) begun(); } });
    await running;
    const long = await ask([{ role: 'user', content: words(promptWords, Date.now() % 100000) }], 8, greedy);
    const { count, worstGapMs } = await stream;
    return { tokens: count + long.count, worstGapMs, longFirstTokenMs: long.firstMs };
  },

  async embed({ texts, words: length }) {
    const input = Array.from({ length: texts }, (_, i) => `${i} ${words(length, i)}`);
    const { usage, data } = JSON.parse(await whole(await post('/v1/embeddings', { input })));
    if (data.length !== texts) throw new Error(`${data.length} vectors instead of ${texts}`);
    return { tokens: usage.prompt_tokens };
  },

  /** N clients, each sending one text at a time. */
  async embedEach({ clients, requests, words: length }) {
    const times = [];
    let tokens = 0;
    await Promise.all(Array.from({ length: clients }, async (_, client) => {
      for (let i = 0; i < requests; i++) {
        const start = performance.now();
        const { usage } = JSON.parse(await whole(await post('/v1/embeddings', { input: `${client}/${i} ${words(length, client * 1000 + i)}` })));
        times.push(performance.now() - start);
        tokens += usage.prompt_tokens;
      }
    }));
    return { tokens, answerMs: at(times, 0.5) };
  },
};

// The client's own loading time does not count.
await new Promise((resolve, reject) => request(`${url}/health`, { agent }, (response) => response.resume().on('end', resolve)).on('error', reject).end());
const start = performance.now();
let numbers = { tokens: 0 };
for (let time = 0; time < repeat; time++) {
  const { tokens, ...rest } = await kinds[kind](time === 0 ? load : { ...load, round: `${load.round ?? 0}+${time}` });
  numbers = { tokens: numbers.tokens + tokens, ...rest };
}
const seconds = (performance.now() - start) / 1000;
agent.destroy();
console.log(JSON.stringify({ ...numbers, seconds, tokensPerSecond: numbers.tokens / seconds }));
