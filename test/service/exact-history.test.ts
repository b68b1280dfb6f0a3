// The next turn of a chat evaluates only its new tokens, in each dialect
// (docs/design/exact-history.md). Answers are sampled at a high temperature, so that many tokens
// differ from the tokenization of their text.
import t from 'tap';
import { post, startService } from './service.js';

interface Said {
  prompt: number;
  cached: number;
  completion: number;
  /** The answer as the client sends it back. */
  back: object[];
}

interface Dialect {
  ask(url: string, turns: readonly object[], seed: number): Promise<Said>;
}

async function answer(url: string, path: string, body: object): Promise<any> {
  const response = await post(url, path, body);
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return await response.json();
}

const most = 48;
const dialects: Record<string, Dialect> = {
  'chat completions': {
    async ask(url, messages, seed) {
      const { choices, usage } = await answer(url, '/v1/chat/completions', { messages, temperature: 1.6, top_k: 0, top_p: 1, min_p: 0, seed, max_tokens: most });
      return {
        prompt: usage.prompt_tokens,
        cached: usage.prompt_tokens_details.cached_tokens,
        completion: usage.completion_tokens,
        back: [choices[0].message],
      };
    },
  },
  responses: {
    async ask(url, input, seed) {
      const { output, usage } = await answer(url, '/v1/responses', { input, temperature: 1.6, top_k: 0, top_p: 1, min_p: 0, seed, max_output_tokens: most, store: false });
      return {
        prompt: usage.input_tokens,
        cached: usage.input_tokens_details.cached_tokens,
        completion: usage.output_tokens,
        back: output,
      };
    },
  },
  messages: {
    async ask(url, messages, seed) {
      const { content, usage } = await answer(url, '/v1/messages', { messages, temperature: 1.6, top_k: 0, top_p: 1, min_p: 0, seed, max_tokens: most });
      return {
        prompt: usage.input_tokens + usage.cache_read_input_tokens, cached: usage.cache_read_input_tokens, completion: usage.output_tokens,
        back: [{ role: 'assistant', content }],
      };
    },
  },
  ollama: {
    async ask(url, messages, seed) {
      const options = { temperature: 1.6, top_k: 0, top_p: 1, min_p: 0, seed, num_predict: most };
      const { message, prompt_eval_count, eval_count } = await answer(url, '/api/chat', { messages, stream: false, options });
      return { prompt: prompt_eval_count, cached: NaN, completion: eval_count, back: [message] };
    },
  },
};

for (const [name, { ask }] of Object.entries(dialects)) {
  t.test(`${name}: a turn continues from everything said before`, async (t) => {
    const { url } = await startService(t, ['-c', '2048', '--parallel', '1']);
    let whole = 0;
    let asked = 0;
    for (let seed = 1; seed <= 8; seed++) {
      const turns: object[] = [{ role: 'user', content: `Tell me something about the number ${seed}.` }];
      let before: Said | undefined;
      for (let turn = 0; turn < 4; turn++) {
        const said = await ask(url, turns, seed * 10 + turn);
        // If a dialect does not report cached tokens, the prompt length shows them.
        const cached = Number.isNaN(said.cached)
          ? Math.min(said.prompt, (before?.prompt ?? 0) + (before?.completion ?? 0) - 1)
          : said.cached;
        if (before) {
          const known = before.prompt + before.completion;
          asked++;
          if (cached >= known - 1 && said.prompt < known + 40) whole++;
          else t.comment(`seed ${seed}, turn ${turn}: ${cached} of ${said.prompt} cached, ${known} were there`);
        }
        turns.push(...said.back, { role: 'user', content: 'Go on.' });
        before = said;
      }
    }
    // At this temperature an answer may have control tokens, which its text lacks, or half
    // characters.
    t.ok(whole >= asked * 0.9, `${whole} of ${asked} turns evaluated only what was new`);
  });
}
