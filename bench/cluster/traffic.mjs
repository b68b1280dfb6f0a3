// Agent traffic: conversations of several turns, each kind with a shared long system prompt, with
// pauses for tools. Each says how it names its conversation, if at all.
import { setTimeout as wait } from 'node:timers/promises';

/** Numbers from 0 to 1, the same for the same seed. */
export function randomOf(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const words = 'river stone lantern orchard signal copper meadow anchor willow harbour compass thunder velvet quarry saddle feather timber glacier beacon ribbon'.split(' ');
const prose = (random, count) => Array.from({ length: count }, () => words[Math.floor(random() * words.length)]).join(' ');

/**
 * @param {{ conversations: number, kinds: number, systemWords: number, toolWords: number, naming:
 *   readonly ('header' | 'key' | 'none')[], seed: number }} given
 */
export function makeConversations({ conversations, kinds, systemWords, toolWords, naming, seed }) {
  const systems = Array.from({ length: kinds }, (_, kind) => `You are agent ${kind}. ${prose(randomOf(seed * 1000 + kind), systemWords)}`);
  return Array.from({ length: conversations }, (_, index) => {
    const random = randomOf(seed * 7919 + index);
    const how = naming[index % naming.length];
    return {
      messages: [{ role: 'system', content: systems[index % kinds] }],
      headers: how === 'header' ? { 'x-session-id': `session-${seed}-${index}` } : {},
      fields: how === 'key' ? { prompt_cache_key: `session-${seed}-${index}` } : {},
      next: (turn) => ({ role: 'user', content: `Task ${seed}/${index}, result ${turn}: ${prose(random, toolWords)}` }),
      random,
    };
  });
}

/**
 * One streamed turn. `begun`: whether the stream opened. A server opens it with its first piece,
 * which may be lost on the way if the server is killed. `error`: what went wrong; undefined if the
 * answer is complete.
 */
export async function ask(url, key, { messages, headers, fields }, tokens) {
  const startedAt = performance.now();
  const result = { begun: false, error: undefined, text: '', firstMs: undefined, prompt: 0, cached: 0 };
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, ...headers },
      body: JSON.stringify({
        messages,
        temperature: 0,
        max_tokens: tokens,
        stream: true,
        stream_options: { include_usage: true },
        ...fields,
      }),
    });
    if (response.status !== 200) return { ...result, error: `${response.status} ${(await response.text()).slice(0, 200)}` };
    result.begun = true;
    let rest = '';
    let isWhole = false;
    const decoder = new TextDecoder();
    for await (const piece of response.body) {
      const lines = (rest + decoder.decode(piece, { stream: true })).split('\n');
      rest = lines.pop();
      for (const line of lines) {
        if (!line.startsWith('data: ')) continue;
        if (line === 'data: [DONE]') { isWhole = true; continue; }
        const event = JSON.parse(line.slice('data: '.length));
        if (event.error) return { ...result, error: event.error.message };
        const content = event.choices?.[0]?.delta?.content;
        if (content) {
          result.firstMs ??= performance.now() - startedAt;
          result.text += content;
        }
        if (event.usage)
          Object.assign(result, { prompt: event.usage.prompt_tokens, cached: event.usage.prompt_tokens_details.cached_tokens });
      }
    }
    return isWhole ? result : { ...result, error: 'The stream ended early.' };
  } catch (thrown) {
    return { ...result, error: `${thrown.message}${thrown.cause ? `: ${thrown.cause.message}` : ''}` };
  }
}

/**
 * Runs all conversations at once; each turn follows the previous answer and a pause. `turns` may be
 * a function that says whether to continue. Resolves to the results of all requests, with their
 * turn.
 */
export async function run(url, key, conversations, { turns, tokens, pauseMs = [0, 0] }) {
  const mayGoOn = typeof turns === 'function' ? turns : (turn) => turn < turns;
  const all = await Promise.all(conversations.map(async (one) => {
    const results = [];
    for (let turn = 0; mayGoOn(turn); turn++) {
      await wait(pauseMs[0] + one.random() * (pauseMs[1] - pauseMs[0]));
      one.messages.push(one.next(turn));
      const result = await ask(url, key, one, tokens);
      results.push({ ...result, turn });
      one.messages.push({ role: 'assistant', content: result.text });
    }
    return results;
  }));
  return all.flat();
}

/** Runs one turn of each after another, which gives the most cached tokens. */
export async function runOneByOne(url, key, conversations, { turns, tokens }) {
  const results = [];
  for (let turn = 0; turn < turns; turn++) {
    for (const one of conversations) {
      one.messages.push(one.next(turn));
      const result = await ask(url, key, one, tokens);
      results.push({ ...result, turn });
      one.messages.push({ role: 'assistant', content: result.text });
    }
  }
  return results;
}
