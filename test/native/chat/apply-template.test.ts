// A chat completions body becomes the same prompt as in llama-server, with every vendored template:
// llama.cpp reads the messages and tools of the body itself, Recua reads what the dialect made of
// them. Each template gets a third of the bodies; `npm run bench -- --templates` has both servers
// render all of them.
import t from 'tap';
import { readFileSync } from 'node:fs';
import { renderChat } from '#recua/engine/prompts/chat.js';
import { Fields } from '#recua/request/fields.js';
import { readChatRequest } from '#recua/server/openai/chat-request.js';
import type { NativeModel } from '#recua/addon/addon.js';
import { newCancelFlag } from '#recua/engine/prompts/cancel-flag.js';
import { makeConfig } from '#recua/settings/config.js';
import { templateFiles, templateOf, vocabulary } from './exact-history.js';

interface Body {
  messages: Record<string, unknown>[];
  tools?: object[];
  [field: string]: unknown;
}

const corpus = JSON.parse(readFileSync(new URL('../../../test/native/chat/bodies.json', import.meta.url), 'utf8')) as Record<string, Body>;

/** Fields beside the messages, as llama-server reads them. */
async function reference(model: NativeModel, template: string, body: Body): Promise<string> {
  const kwargs: Record<string, string> = {};
  const { enable_thinking: thinks = true, ...given } = (body['chat_template_kwargs'] ?? {}) as Record<string, unknown>;
  for (const [name, value] of Object.entries(given)) kwargs[name] = JSON.stringify(value);
  if (body['reasoning_effort'] !== undefined) kwargs['reasoning_effort'] = JSON.stringify(body['reasoning_effort']);
  const continues = body['continue_final_message'];
  const { prompt } = await model.applyChatTemplate({
    messages: JSON.stringify(body.messages), tools: body.tools ? JSON.stringify(body.tools) : '', toolChoice: 'auto', jsonSchema: '', grammar: '',
    addGenerationPrompt: (body['add_generation_prompt'] ?? true) as boolean, enableThinking: thinks as boolean,
    ...(continues === undefined ? {} : { continuation: continues === true ? 'auto' as const : continues as 'reasoning_content' }), templateKwargs: kwargs, template,
  });
  return prompt;
}

t.test('every template turns bodies into the prompts of llama-server', async (t) => {
  const model = await vocabulary('qwen2');
  t.teardown(() => model.close());
  let compared = 0;
  for (const [i, file] of templateFiles.entries()) {
    const template = templateOf(file);
    for (const [j, [name, body]] of Object.entries(corpus).entries()) {
      if ((i + j) % 3 > 0) continue;
      const expected = await reference(model, template, body).catch((error: Error) => error);
      const { request } = readChatRequest(Fields.of(structuredClone(body)), {
        defaults: makeConfig({}),
        model: { vocabSize: 1_000_000, contextSize: 1_000_000 },
      });
      const got = await renderChat(model, template, request, newCancelFlag()).then(({ prompt }) => prompt, (error: Error) => error);
      if (expected instanceof Error) t.ok(got instanceof Error, `${file}, ${name}: both are refused`);
      else t.equal(got, expected, `${file}, ${name}`);
      if (!(expected instanceof Error)) compared++;
    }
  }
  t.ok(compared > 500, `${compared} prompts`);
});

t.test('as in llama-server, earlier thoughts stay, and some templates think only on request', async (t) => {
  const model = await vocabulary('qwen2');
  t.teardown(() => model.close());
  const prompt = async (file: string, body: Body): Promise<string> => {
    const { request } = readChatRequest(Fields.of(structuredClone(body)), {
      defaults: makeConfig({}),
      model: { vocabSize: 1_000_000, contextSize: 1_000_000 },
    });
    return (await renderChat(model, templateOf(file), request, newCancelFlag())).prompt;
  };
  const thoughts = corpus['thoughts']!;
  t.match(await prompt('GLM-4.7-Flash.jinja', thoughts), '<think>Clouds…</think>It rains.');
  t.notMatch(await prompt('GLM-4.7-Flash.jinja', { ...thoughts, chat_template_kwargs: { preserve_reasoning: false } }), 'Clouds');
  const plain = corpus['plain']!;
  t.match(await prompt('Apertus-8B-Instruct.jinja', plain), 'Deliberation: disabled');
  for (const more of [{ enable_thinking: true }, { chat_template_kwargs: { enable_thinking: true } }]) t.match(await prompt('Apertus-8B-Instruct.jinja', { ...plain, ...more }), 'Deliberation: enabled');
});

t.test('a request that is cancelled while its template is compiled changes nothing for the next', async (t) => {
  const model = await vocabulary('qwen2');
  t.teardown(() => model.close());
  const source = templateOf('Qwen-Qwen3-0.6B.jinja');
  const tools = JSON.stringify([{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: { a: { type: 'string' } } } } }]);
  const ask = (mark: number, cancelled = newCancelFlag()) => model.applyChatTemplate({
    messages: JSON.stringify([{ role: 'system', content: 'S' }, { role: 'user', content: 'hi' }]), tools, toolChoice: 'auto', jsonSchema: '', grammar: '',
    addGenerationPrompt: true, enableThinking: true, templateKwargs: {}, template: `${source}{# ${mark} #}`, cancelled,
  });
  await ask(-1);
  const start = performance.now();
  const { prompt, grammar, thinking } = await ask(-2);
  const wholeMs = performance.now() - start;
  for (let i = 0; i < 60; i++) {
    const flag = newCancelFlag();
    const given = ask(i, flag);
    const until = performance.now() + wholeMs * i / 60;
    while (performance.now() < until);
    flag[0] = 1;
    await given.catch((error: { code?: string }) => t.equal(error.code, 'cancelled'));
    const next = await ask(i);
    t.same([next.prompt, next.grammar, next.thinking], [prompt, grammar, thinking], `cancelled after ${i} of 60 parts of the time`);
  }
});
