// Log probabilities of tokens that are half of a character: a stream of Responses brings the same
// ones as the whole answer, in its deltas and in its items.
import t from 'tap';
import { post, startService } from './service.js';

interface Told { bytes: number[] }
interface Event { type: string; logprobs?: Told[]; response?: Response }
interface Response { output: { type: string; content: { logprobs: Told[] }[] }[] }

const told = ({ output }: Response): Told[] => output.filter(({ type }) => type === 'message').flatMap(({ content }) => content[0]!.logprobs);

t.test('no token of half a character is lost in a stream', async (t) => {
  const { url } = await startService(t, ['-c', '512']);
  for (const tokens of [1, 2, 3, 5]) {
    const body = {
      input: 'Hello 😀, who are you?', temperature: 0, max_output_tokens: tokens, store: false, top_logprobs: 2,
      text: { format: { type: 'regex', regex: '[😀-😎é漢a]{1,40}' } }, include: ['message.output_text.logprobs'],
    };
    const whole = told(await (await post(url, '/v1/responses', body)).json() as Response);
    t.equal(whole.length, tokens);
    const text = await (await post(url, '/v1/responses', { ...body, stream: true })).text();
    const events = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json!) as Event);
    const bytes = (list: readonly Told[]) => list.map((one) => one.bytes);
    t.strictSame(bytes(told(events.at(-1)!.response!)), bytes(whole));
    t.strictSame(bytes(events.filter(({ type }) => type === 'response.output_text.delta').flatMap(({ logprobs }) => logprobs ?? [])), bytes(whole));
  }
});
