// How much of its text a request may have copied for several answers.
import t from 'tap';
import { boundCopies } from '#recua/server/exchange/copies.js';
import type { EngineRequest } from '#recua/server/exchange/dialect.js';

const request = (length: number): EngineRequest => ({ prompt: 'Hi', grammar: 'x'.repeat(length), sampling: { logitBias: [] } }) as unknown as EngineRequest;
const answers = (count: number, one: EngineRequest): EngineRequest[] => Array.from({ length: count }, () => one);

t.test('one answer may have any text, several share a limit', (t) => {
  const mebi = 2 ** 20;
  boundCopies([[request(200 * mebi)]]);
  boundCopies([answers(128, request(mebi / 2))]);
  const refused = { code: 'invalid_value', param: 'n', message: /at most 128 MiB of texts for all answers.*ask for fewer/ };
  t.throws(() => boundCopies([answers(128, request(4 * mebi))]), refused);
  const prompts = { code: 'invalid_value', param: 'prompt', message: /ask for fewer prompts/ };
  t.throws(() => boundCopies(Array.from({ length: 40 }, () => [request(4 * mebi)])), prompts, 'prompts share settings');
  t.throws(() => boundCopies([answers(2, { prompt: new Int32Array(20 * mebi) } as unknown as EngineRequest)]), refused, 'tokens count, too');
  t.end();
});

t.test('what prompts share is looked through once', (t) => {
  let looks = 0;
  const logitBias = [Object.defineProperty({}, 'token', { enumerable: true, get: () => ++looks })];
  boundCopies(Array.from({ length: 128 }, () => [{ prompt: 'Hi', sampling: { logitBias } } as unknown as EngineRequest]));
  t.equal(looks, 1);
  t.end();
});
