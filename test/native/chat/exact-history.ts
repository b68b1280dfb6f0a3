// A chat turn as a model could have written it, for any template and vocabulary: the template's own
// text for an answer, in tokens as odd as sampling may produce. For tests of how much of it the
// next turn must evaluate.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { ChatInput, ChatPrompt, NativeModel, ParsedMessage, Pieces } from '#recua/addon/addon.js';
import { loadAddon } from '#recua/addon/addon.js';
import { root } from '../fake-backend.js';
import { random } from '../../engine/requests.js';

const folder = join(root, 'vendor', 'llama.cpp', 'models');
export const vocabulary = (name: string) =>
  loadAddon().loadModel({ path: join(folder, `ggml-vocab-${name}.gguf`), gpuLayers: 0, mmap: true, mlock: false, vocabOnly: true }).promise;
export const templateFiles = readdirSync(join(folder, 'templates')).filter((name) => name.endsWith('.jinja'));
export const templateOf = (name: string) => readFileSync(join(folder, 'templates', name), 'utf8');

export interface Message {
  role: string;
  content: string | null;
  reasoning_content?: string;
  tool_call_id?: string;
  tool_calls?: object[];
}

const weather = { type: 'function', function: { name: 'get_weather', description: 'Weather of a city', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } } };

/** The answer of the first turn, and what follows it. */
export const kinds = {
  plain: {
    tools: '', thinks: false,
    answer: { role: 'assistant', content: 'In Paris it rains cats and dogs today, 12 degrees.' } as Message,
    next: { role: 'user', content: 'And in Rome?' } as Message,
  },
  reasoning: {
    tools: '', thinks: true,
    answer: { role: 'assistant', content: 'In Paris it rains.', reasoning_content: 'The user asks for the weather. I remember clouds.' } as Message,
    next: { role: 'user', content: 'And in Rome?' } as Message,
  },
  tool: {
    tools: JSON.stringify([weather]), thinks: false,
    answer: { role: 'assistant', content: null, tool_calls: [{ id: 'abcdefghi', type: 'function', function: { name: 'get_weather', arguments: '{"city": "Paris"}' } }] } as Message,
    next: { role: 'tool', tool_call_id: 'abcdefghi', content: 'It rains.' } as Message,
  },
};
export type Kind = keyof typeof kinds;

const asked: Message[] = [{ role: 'user', content: 'What is the weather in Paris?' }];

export function chatInput(messages: readonly Message[], template: string, kind: Kind, more: Partial<ChatInput> = {}): ChatInput {
  const { tools, thinks } = kinds[kind];
  return {
    messages: JSON.stringify(messages), tools, toolChoice: 'auto', jsonSchema: '', grammar: '', addGenerationPrompt: true, enableThinking: thinks,
    templateKwargs: {}, template, ...more,
  };
}

/** The prompt tokens as a request gets them. */
export async function promptTokens(model: NativeModel, input: ChatInput): Promise<Int32Array> {
  const { made } = await model.prepareChat(
    { ...input, contextSize: 1_000_000, strict: new Int32Array(), parseToolCalls: true },
    { temperature: 0 },
  );
  made!.sampler.close();
  made!.parser.close();
  return made!.tokens;
}

/** Tokens by first byte, for spelling a text. */
export function speller(pieces: Pieces) {
  const byFirst = new Map<number, { token: number; bytes: Buffer }[]>();
  for (let token = 0; token < pieces.flags.length; token++) {
    const bytes = Buffer.from(pieces.bytes.subarray(pieces.offsets[token], pieces.offsets[token + 1]));
    if (bytes.length === 0 || bytes.length > 6) continue;
    const list = byFirst.get(bytes[0]!) ?? [];
    byFirst.set(bytes[0]!, list);
    list.push({ token, bytes });
  }
  /** `isTaken`: tokens that the tokenizer matches first in a text are not used to spell it. */
  return (text: Buffer, seed: number, isTaken: (token: number) => boolean): number[] => {
    const pick = random(seed);
    const out: number[] = [];
    for (let at = 0; at < text.length;) {
      const fits = (byFirst.get(text[at]!) ?? []).filter(
        ({ token, bytes }) => !isTaken(token) && bytes.equals(text.subarray(at, at + bytes.length)),
      );
      const { token, bytes } = fits[Math.floor(pick() * fits.length)]!;
      out.push(token);
      at += bytes.length;
    }
    return out;
  };
}

export interface Turn {
  prompt: string;
  promptTokens: Int32Array;
  /** The answer with its control tokens, without its end token. */
  raw: string;
  /** The answer as a client gets it. */
  message: ParsedMessage;
}

function commonText(a: string, b: string): string {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return a.slice(0, at);
}

/** The model's text of the answer: its own frame, as the template writes it, and no more. */
async function rawAnswer(model: NativeModel, template: string, kind: Kind, first: ChatPrompt): Promise<string> {
  const { answer } = kinds[kind];
  const whole = { addGenerationPrompt: false, continuation: 'none' as const };
  const { prompt, generationPrompt, thinking: [start, end] } = first;
  const content = answer.content ?? '';
  if (kind === 'plain') return content;
  if (kind === 'reasoning') {
    // If the prompt opens the thoughts, the model only closes them.
    const open = start !== '' && generationPrompt.includes(start!) && !generationPrompt.includes(end!);
    return start === '' ? content : `${open ? '' : start}${answer.reasoning_content}${end}\n\n${content}`;
  }
  const said = (await model.applyChatTemplate(chatInput([...asked, answer], template, kind, whole))).prompt;
  const mark = 'xyzzy';
  const plain = (await model.applyChatTemplate(chatInput([...asked, { role: 'assistant', content: mark }], template, kind, whole))).prompt;
  const tail = plain.slice(plain.lastIndexOf(mark) + mark.length);
  const head = prompt.slice(0, prompt.length - generationPrompt.length);
  const frame = said.slice(head.length);
  const raw = frame.slice(commonText(frame, generationPrompt).length);
  return tail !== '' && raw.endsWith(tail) ? raw.slice(0, raw.length - tail.length) : raw;
}

/** The first turn; undefined if the template does not support or understand it. */
export async function firstTurn(model: NativeModel, template: string, kind: Kind): Promise<Turn | undefined> {
  const { answer } = kinds[kind];
  try {
    const first = await model.applyChatTemplate(chatInput(asked, template, kind));
    const raw = await rawAnswer(model, template, kind, first);
    const parser = model.createParser(first, true);
    parser.parse(raw, false);
    const message = parser.message();
    const understood = kind === 'tool' ? message.toolCalls.length === 1 : message.content.trim() === answer.content;
    if (!understood) return undefined;
    return { prompt: first.prompt, promptTokens: await promptTokens(model, chatInput(asked, template, kind)), raw, message };
  } catch {
    return undefined;
  }
}

export function nextMessages({ message }: Turn, kind: Kind): Message[] {
  const { content, reasoning, toolCalls } = message;
  return [
    ...asked,
    {
      role: 'assistant', content: content === '' && toolCalls.length > 0 ? null : content, ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
      ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls.map(({ id, name, arguments: args }) => ({ id: id || 'abcdefghi', type: 'function', function: { name, arguments: args } })) }),
    },
    { ...kinds[kind].next, ...(kind === 'tool' ? { tool_call_id: toolCalls[0]!.id || 'abcdefghi' } : {}) },
  ];
}
