// LangChain's OpenAI package against the real server on the built-in model.
import { ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import t from 'tap';
import { z } from 'zod';
import { startService } from '../service/service.js';

t.test('LangChain chats, streams, calls tools, gets objects and embeds', async (t) => {
  const { url } = await startService(t);
  const configuration = { baseURL: `${url}/v1` };
  for (const useResponsesApi of [false, true]) {
    const model = new ChatOpenAI({ model: 'default', apiKey: 'none', configuration, temperature: 0, maxTokens: 60, maxRetries: 0, useResponsesApi });
    const what = useResponsesApi ? 'responses' : 'chat';
    const whole = await model.invoke('Tell me something about rain.');
    t.not(whole.text, '', what);
    let text = '';
    for await (const chunk of await model.stream('Tell me something about rain.')) text += chunk.text;
    t.equal(text, whole.text, what);
    t.ok(whole.usage_metadata!.output_tokens > 0, what);

    const schema = z.object({ name: z.string(), age: z.number().int() });
    t.ok(schema.safeParse(await model.withStructuredOutput(schema, { method: 'jsonSchema' }).invoke('Invent a person.')).success, what);

    const weather = tool(({ city }) => `${city}: sunny, 21 degrees`, { name: 'get_weather', description: 'Get the weather of a city', schema: z.object({ city: z.string() }) });
    const able = model.bindTools([weather]);
    const asks = await able.invoke('What is the weather in Paris?');
    t.match(asks.tool_calls, [{ name: 'get_weather', args: { city: 'Paris' } }], what);
    const [call] = asks.tool_calls!;
    const result = await weather.invoke(call!);
    t.ok(result instanceof ToolMessage);
    t.match((await able.invoke([{ role: 'user', content: 'What is the weather in Paris?' }, asks, result as ToolMessage])).text, /sunny|21/, what);
  }
  const vectors = await new OpenAIEmbeddings({ model: 'default', apiKey: 'none', configuration, maxRetries: 0 }).embedDocuments(['first', 'second']);
  t.equal(vectors.length, 2);
});
