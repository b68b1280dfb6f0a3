import t from 'tap';
import { samplerOptions } from '#recua/engine/text/sampling.js';
import { sampling } from '../requests.js';

t.test('temperature 0 is greedy and omits samplers that only reshape the tail', async (t) => {
  t.strictSame(samplerOptions({ ...sampling, mirostat: 2, xtcProbability: 1 }), { temperature: 0 });
});

t.test('greedy keeps penalties, bias and seed, which do change the answer', async (t) => {
  const given = { ...sampling, repeatPenalty: 1.1, dryMultiplier: 0.8, logitBias: [{ token: 1, bias: -5 }], seed: 7, ignoreEos: true };
  t.strictSame(samplerOptions(given), {
    temperature: 0,
    seed: 7,
    repeatPenalty: 1.1,
    penaltyLastN: 64,
    dryMultiplier: 0.8,
    dryBase: 1.75,
    dryAllowedLength: 2,
    dryPenaltyLastN: -1,
    logitBias: [{ token: 1, bias: -5 }],
    ignoreEos: true,
  });
});

t.test('an option at its neutral value is absent', async (t) => {
  t.strictSame(samplerOptions({ ...sampling, temperature: 0.7 }), { temperature: 0.7, topK: 40, topP: 0.95, minP: 0.05 });
  t.strictSame(samplerOptions({ ...sampling, temperature: 1, topK: 0, topP: 1, minP: 0 }), { temperature: 1 });
  t.strictSame(samplerOptions({ ...sampling, penaltyLastN: 0, repeatPenalty: 2 }), { temperature: 0 });
});

t.test('mirostat stands alone', async (t) => {
  t.strictSame(samplerOptions({ ...sampling, temperature: 1, mirostat: 2 }), {
    temperature: 1,
    mirostat: 2,
    mirostatTau: 5,
    mirostatEta: 0.1,
  });
});
