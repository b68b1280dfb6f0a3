// A load as a process of its own that sees only HTTP: N clients, each sending its requests one after the other.
// Prints one JSON line: { tokens, seconds, tokensPerSecond, firstTokenMs: [p50, p99] }.
// Arguments: one JSON object { url, clients, requests, tokens, body }.
const { url, clients, requests, tokens, body } = JSON.parse(process.argv[2]);

const subjects = ['rivers', 'mountains', 'bread', 'trains', 'winter', 'music', 'bridges', 'gardens', 'letters', 'clocks', 'maps', 'wool', 'salt', 'glass', 'ink', 'stone'];

/** One streamed answer; resolves to its token count and the time to its first piece of text. */
async function ask(client, request) {
  const subject = `${subjects[client % subjects.length]} and ${subjects[(client + request * 7 + 3) % subjects.length]}`;
  const start = performance.now();
  const send = () => fetch(`${url}/v1/chat/completions`, {
    method: 'POST', headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      messages: [{ role: 'user', content: `${client}/${request}: Tell me a long story about ${subject}, with names, places and a good ending.` }],
      max_tokens: tokens, ignore_eos: true, stream: true, stream_options: { include_usage: true }, ...body,
    }),
  });
  // A server may close idle connections just as they are used again: like OpenAI's clients, try again.
  const response = await send().catch(send).catch(send).catch(send);
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  let first = 0;
  let usage;
  let rest = '';
  const decoder = new TextDecoder();
  for await (const bytes of response.body) {
    rest += decoder.decode(bytes, { stream: true });
    const lines = rest.split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith('data: {')) continue;
      const chunk = JSON.parse(line.slice(6));
      if (chunk.error) throw new Error(JSON.stringify(chunk.error));
      if (first === 0 && chunk.choices?.[0]?.delta?.content) first = performance.now() - start;
      usage = chunk.usage ?? usage;
    }
  }
  return { count: usage.completion_tokens, first };
}

const start = performance.now();
const answers = await Promise.all(Array.from({ length: clients }, async (_, client) => {
  const own = [];
  for (let request = 0; request < requests; request++) own.push(await ask(client, request));
  return own;
}));
const seconds = (performance.now() - start) / 1000;
const all = answers.flat();
const total = all.reduce((sum, { count }) => sum + count, 0);
const firsts = all.map(({ first }) => first).sort((a, b) => a - b);
const at = (share) => firsts[Math.min(firsts.length - 1, Math.floor(share * firsts.length))];
console.log(JSON.stringify({ tokens: total, seconds, tokensPerSecond: total / seconds, firstTokenMs: [at(0.5), at(0.99)] }));
