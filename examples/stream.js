// Streams an answer; a signal cuts it off if it takes longer than two seconds.
import { loadModel } from 'recua';

const model = await loadModel(process.argv[2] ?? 'builtin', {
  onProgress: (fraction) => process.stderr.write(`\rloading ${Math.round(fraction * 100)} %${fraction === 1 ? '\n' : ''}`),
});
const answer = model.chat('Tell me a story', { maxTokens: 200, signal: AbortSignal.timeout(2_000) });
try {
  for await (const { content } of answer) process.stdout.write(content ?? '');
  const { usage, timings } = await answer;
  console.log(`\n${usage.completionTokens} tokens in ${Math.round(timings.generateMs)} ms`);
} catch (error) {
  if (error.code !== 'cancelled') throw error;
  console.log('\nToo slow.');
}
await model.dispose();
