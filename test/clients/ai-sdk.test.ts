// Vercel's AI SDK with each of its providers, against the real server on the built-in model.
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embedMany, generateObject, generateText, stepCountIs, streamObject, streamText, tool, type LanguageModel } from 'ai';
import t, { type Test } from 'tap';
import { z } from 'zod';
import { startService } from '../service/service.js';

const settings = { temperature: 0, maxOutputTokens: 48, maxRetries: 0 } as const;
const person = z.object({ name: z.string(), age: z.number().int() });
const aboutPerson = 'Invent a person.';
/** Anthropic's provider would turn it into a tool for models that it does not know. */
const providerOptions = { anthropic: { structuredOutputMode: 'outputFormat' } };

async function providers(t: Test): Promise<{ url: string; models: [name: string, model: LanguageModel][] }> {
  const { url } = await startService(t);
  const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: 'none' });
  return {
    url,
    models: [
      ['openai-compatible', createOpenAICompatible({ name: 'recua', baseURL: `${url}/v1`, includeUsage: true, supportsStructuredOutputs: true })('default')],
      ['openai chat', openai.chat('default')],
      ['openai responses', openai.responses('default')],
      ['anthropic', createAnthropic({ baseURL: `${url}/v1`, apiKey: 'none' })('default')],
    ],
  };
}

t.test('text is the same whole and streamed', async (t) => {
  const ask = { ...settings, system: 'Be short.', prompt: 'Tell me something about rain.' };
  const texts = new Set<string>();
  for (const [name, model] of (await providers(t)).models) {
    const whole = await generateText({ model, ...ask });
    t.not(whole.text, '', name);
    const streamed = streamText({ model, ...ask });
    let text = '';
    for await (const part of streamed.textStream) text += part;
    t.equal(text, whole.text, name);
    t.equal(await streamed.finishReason, whole.finishReason, name);
    t.equal((await streamed.usage).outputTokens, whole.usage.outputTokens, name);
    t.equal((await streamed.usage).inputTokens, whole.usage.inputTokens, name);
    texts.add(text);
  }
  t.equal(texts.size, 1, 'every dialect asks the model the same');
});

t.test('objects follow their schema', async (t) => {
  for (const [name, model] of (await providers(t)).models) {
    const { object } = await generateObject({
      model,
      ...settings,
      maxOutputTokens: 200,
      schema: person,
      prompt: aboutPerson,
      providerOptions,
    });
    t.ok(person.safeParse(object).success, name);
    const streamed = streamObject({ model, ...settings, maxOutputTokens: 200, schema: person, prompt: aboutPerson, providerOptions });
    for await (const partial of streamed.partialObjectStream) t.ok(partial);
    t.strictSame(await streamed.object, object, name);
  }
});

t.test('tools are called, and their results answered', async (t) => {
  const tools = {
    get_weather: tool({ description: 'Get the weather of a city', inputSchema: z.object({ city: z.string() }), execute: ({ city }) => Promise.resolve(`${city}: sunny, 21 degrees`) }),
  };
  for (const [name, model] of (await providers(t)).models) {
    const ask = { model, ...settings, tools, prompt: 'What is the weather in Paris?', stopWhen: stepCountIs(3) };
    const whole = await generateText(ask);
    t.match(whole.steps[0]!.toolCalls, [{ toolName: 'get_weather', input: { city: 'Paris' } }], name);
    t.match(whole.text, /sunny|21/, name);
    const streamed = streamText(ask);
    let text = '';
    for await (const part of streamed.textStream) text += part;
    t.equal(text, whole.text, name);
    t.strictSame(
      (await streamed.steps).map(({ toolCalls }) => toolCalls.length),
      whole.steps.map(({ toolCalls }) => toolCalls.length),
      name,
    );
  }
});

t.test('embeddings have length 1', async (t) => {
  const { url } = await providers(t);
  for (const model of [createOpenAI({ baseURL: `${url}/v1`, apiKey: 'none' }).textEmbeddingModel('default'), createOpenAICompatible({ name: 'recua', baseURL: `${url}/v1` }).textEmbeddingModel('default')]) {
    const { embeddings } = await embedMany({ model, values: ['first', 'second'], maxRetries: 0 });
    t.equal(embeddings.length, 2);
    for (const vector of embeddings) t.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-4);
  }
});
