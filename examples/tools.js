// A tool that the model calls and the library runs; the answer uses its result.
import { loadModel, tool } from 'recua';

const model = await loadModel(process.argv[2] ?? 'builtin');
const answer = await model.chat('What is the weather in Paris?', {
  temperature: 0,
  tools: {
    get_weather: tool({
      description: 'Get the weather of a city',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
      execute: ({ city }) => `Sunny in ${city}, 21 degrees`,
    }),
  },
});
console.log(answer.content);
await model.dispose();
