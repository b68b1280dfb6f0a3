// The body of POST /v1/completions → the engine's CompletionRequests, once, with everything
// checked. Pure. Called by dialect.
import type { CompletionRequest } from '../../engine/protocol.js';
import { wrongType, wrongValue, type Fields } from '../../request/fields.js';
import { readTokens } from '../../request/tokens.js';
import { readSampling } from '../../request/sampling-fields.js';
import type { ChatAsked, ChatContext } from '../exchange/dialect.js';
import { readConstraint, readCount, readMaxTokens, readStop, refuse, times } from './answer-fields.js';

const maxPrompts = 128;

export interface CompletionBody extends ChatAsked {
  /** Answers to each prompt. */
  count: number;
  includeUsage: boolean;
  /** Texts that answers begin with, by prompt: those of `echo`. */
  echoes: readonly string[] | undefined;
}

export function readCompletionRequest(body: Fields, { defaults, model }: ChatContext): CompletionBody {
  refuseUnsupported(body);
  const prompts = readPrompts(body, model.vocabSize);
  const count = readCount(body);
  const echo = body.boolean('echo') ?? false;
  if (echo && !prompts.every((prompt) => typeof prompt === 'string')) throw wrongValue('echo', 'false where the prompt is tokens', true);
  const common = {
    constraint: readConstraint(body),
    sampling: readSampling(body, { ...defaults, vocabSize: model.vocabSize, contextSize: model.contextSize }),
    maxTokens: readMaxTokens(body) ?? defaults.maxTokens,
    stop: readStop(body),
  };
  return {
    prompts: prompts.map((prompt) => times<CompletionRequest>({ prompt, ...common }, count)),
    count,
    stream: body.boolean('stream') ?? false,
    includeUsage: body.fields('stream_options')?.boolean('include_usage') ?? false,
    echoes: echo ? (prompts as string[]) : undefined,
  };
}

function refuseUnsupported(body: Fields): void {
  if (body.get('suffix') !== '') refuse(body, 'suffix');
  if (body.get('best_of') !== 1) refuse(body, 'best_of', 'ask for n answers');
  if (body.get('logprobs') !== false) refuse(body, 'logprobs');
}

/** A text, texts, tokens, or several of these, as OpenAI has them. */
function readPrompts(body: Fields, vocabSize: number): (string | Int32Array)[] {
  const prompt = body.get('prompt');
  const expected = 'a string, an array of strings, or tokens';
  if (typeof prompt === 'string') return [prompt];
  if (!Array.isArray(prompt)) throw wrongType('prompt', expected, prompt);
  if (prompt.length === 0) throw wrongValue('prompt', 'at least one prompt', prompt);
  if (typeof prompt[0] === 'number') return [readTokens(prompt, 'prompt', vocabSize)];
  if (prompt.length > maxPrompts) throw wrongValue('prompt', `at most ${maxPrompts} prompts`, prompt);
  return prompt.map((one: unknown, index) => {
    if (typeof one === 'string') return one;
    if (Array.isArray(one)) return readTokens(one, `prompt[${index}]`, vocabSize);
    throw wrongType(`prompt[${index}]`, 'a string or an array of tokens', one);
  });
}
