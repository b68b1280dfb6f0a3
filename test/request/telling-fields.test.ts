import t from 'tap';
import { boundTold } from '#recua/request/telling-fields.js';

const all = 2 ** 31 - 1;

t.test('log probabilities bound the answers that ask for no bound, and refuse others', async (t) => {
  t.equal(boundTold({}, undefined, all, 1_000_000), all, 'without log probabilities there is no bound');
  t.equal(boundTold({ logprobs: 20 }, undefined, all, 32_768), all, 'the context is shorter');
  t.equal(boundTold({ logprobs: 20 }, undefined, all, 131_072), 95_238);
  t.equal(boundTold({ logprobs: 20 }, all, 100, 131_072), 95_238, '-1 is as much as fits');
  t.equal(boundTold({ logprobs: 20 }, undefined, 100, 131_072), 100);
  t.equal(boundTold({ logprobs: 20 }, undefined, all, 32_768, { answers: 8 }), 11_904);
  t.equal(boundTold({ logprobs: 4 }, undefined, all, 500_000, { answers: 2, promptTokens: 100_000 }), 150_000);
  t.equal(boundTold({ logprobs: 20 }, 95_238, all, 131_072), 95_238);
  t.equal(boundTold({ logprobs: 20 }, undefined, all, all), all, 'the model is not known yet');
  t.throws(() => boundTold({ logprobs: 20 }, 95_239, all, 131_072), { code: 'invalid_value', param: 'logprobs', message: /at most 2000000 .* up to 2000019;/ });
  t.throws(() => boundTold({ logprobs: 20 }, undefined, all, 131_072, { promptTokens: 100_000 }), { code: 'invalid_value' }, 'the prompt alone');
  t.throws(() => boundTold({ logprobs: 9 }, 20_001, all, 131_072, { most: 200_000 }), { message: /at most 200000 / });
});
