// The published format of each family, rendered by the addon's engine as in a chat.
import t from 'tap';
import type { NativeModel } from '#recua/addon/addon.js';
import { chatTemplates, templateNames, type TemplateName } from '#recua/models/chat-templates.js';
import { chatPrompt, loadBuiltin } from '../native/setup.js';

let model: NativeModel;
t.before(async () => { model = await loadBuiltin(); });
t.teardown(() => model.close());

type Message = { role: 'system' | 'user' | 'assistant'; content: string };
const system: Message = { role: 'system', content: 'Be brief.' };
const turns: Message[] = [{ role: 'user', content: 'One?' }, { role: 'assistant', content: 'One.' }, { role: 'user', content: 'Two?' }];

const render = async (name: TemplateName, messages: Message[], addGenerationPrompt = true) => (await chatPrompt(model, '', {
  messages: JSON.stringify(messages), template: chatTemplates[name].source, addGenerationPrompt,
})).prompt;

const expected: Record<Exclude<TemplateName, 'auto'>, { bare: string; whole: string }> = {
  chatml: {
    bare: '<|im_start|>user\nOne?<|im_end|>\n<|im_start|>assistant\n',
    whole: '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nOne?<|im_end|>\n<|im_start|>assistant\nOne.<|im_end|>\n<|im_start|>user\nTwo?<|im_end|>\n<|im_start|>assistant\n',
  },
  llama3: {
    bare: '<|start_header_id|>user<|end_header_id|>\n\nOne?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n',
    whole: '<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nOne?<|eot_id|>'
      + '<|start_header_id|>assistant<|end_header_id|>\n\nOne.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nTwo?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n',
  },
  mistral: { bare: '[INST] One?[/INST]', whole: '[INST] Be brief.\n\nOne?[/INST] One.</s>[INST] Two?[/INST]' },
  gemma: {
    bare: '<start_of_turn>user\nOne?<end_of_turn>\n<start_of_turn>model\n',
    whole: '<start_of_turn>user\nBe brief.\n\nOne?<end_of_turn>\n<start_of_turn>model\nOne.<end_of_turn>\n<start_of_turn>user\nTwo?<end_of_turn>\n<start_of_turn>model\n',
  },
  phi3: {
    bare: '<|user|>\nOne?<|end|>\n<|assistant|>\n',
    whole: '<|system|>\nBe brief.<|end|>\n<|user|>\nOne?<|end|>\n<|assistant|>\nOne.<|end|>\n<|user|>\nTwo?<|end|>\n<|assistant|>\n',
  },
  qwen: {
    bare: '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n<|im_start|>user\nOne?<|im_end|>\n<|im_start|>assistant\n',
    whole: '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nOne?<|im_end|>\n<|im_start|>assistant\nOne.<|im_end|>\n<|im_start|>user\nTwo?<|im_end|>\n<|im_start|>assistant\n',
  },
};

for (const [name, { bare, whole }] of Object.entries(expected) as [TemplateName, { bare: string; whole: string }][]) {
  t.test(`${name} renders one turn, and several with a system message`, async (t) => {
    t.equal(await render(name, [turns[0]!]), bare);
    t.equal(await render(name, [system, ...turns]), whole);
    // The answer is opened only on request.
    if (name !== 'mistral') t.ok(bare.startsWith(await render(name, [turns[0]!], false)) && bare !== await render(name, [turns[0]!], false));
  });
}

t.test('an earlier prompt is the beginning of the next one, so that its KV is reused', async (t) => {
  for (const name of templateNames) {
    const first = await render(name, [system, turns[0]!]);
    t.ok((await render(name, [system, ...turns])).startsWith(first), name);
  }
});

t.test('llama3 and gemma trim messages as the families do; chatml keeps them', async (t) => {
  const padded: Message[] = [{ role: 'user', content: '  One?\n' }];
  t.equal(await render('llama3', padded), expected.llama3.bare);
  t.equal(await render('gemma', padded), expected.gemma.bare);
  t.equal(await render('chatml', padded), '<|im_start|>user\n  One?\n<|im_end|>\n<|im_start|>assistant\n');
});

t.test('no template writes a BOS of its own, and each ends its turns with its stop text', async (t) => {
  for (const name of templateNames.filter((one) => one !== 'auto')) {
    const prompt = await render(name, [system, ...turns]);
    t.notMatch(prompt, /<s>|<bos>|<\|begin_of_text\|>|<\|endoftext\|>/, name);
    t.ok(prompt.includes(`One.${chatTemplates[name].stops[0]!}`), name);
  }
});

t.test('auto is the template of the file', async (t) => {
  t.same(chatTemplates.auto, { source: '', stops: [] });
  t.equal(await render('auto', [turns[0]!]), expected.chatml.bare);
});
