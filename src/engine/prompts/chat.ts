// Chat and completion requests → prompt tokens. Called by the engine. Templates are llama.cpp's, in
// the addon.
import type { CancelFlag, ChatInput, NativeAddon, NativeModel, NativeSampler, PreparedChat, SamplerOptions } from '../../addon/addon.js';
import { RecuaError } from '../../errors.js';
import type { ChatRequest, CompletionRequest, Constraint, Rendered } from '../protocol.js';
import type { Telling } from '../telling.js';
import { chatError, schemaWarnings, strictSources } from '../text/schema-loss.js';
import { leastTokens } from '../text/text-length.js';
import type { SpelledPrompt } from '../text/told-tokens.js';
import { ChatParser, PlainParser, type AnswerParser, type Calls } from './answer-parser.js';
import { infillTokens } from './infill.js';
import { checkTokenizable, checkTokens } from './known-tokens.js';
import { optionsOf, predictionOf } from './sampler-options.js';
import { shorten, userMessages } from './truncation.js';

/** Everything a request needs before its first step. */
export interface PreparedPrompt {
  tokens: Int32Array;
  sampler: NativeSampler;
  stops: string[];
  /** A stop string ends the answer only after this many tokens. */
  minTokens: number;
  /** Time limit for generating; 0: none. */
  generateMs: number;
  /** Control tokens that the parser must see, with their bytes; all others have no text. */
  shown: Map<number, Uint8Array>;
  parser: AnswerParser;
  /** Warnings for the answer's end, besides the parser's. */
  warnings: string[];
  /** The sampler guesses tokens ahead. `predicted`: the request has a prediction to guess from. */
  guesses: boolean;
  predicted: boolean;
  /** Text of the prompt to send; '' for none. */
  echo: string;
  /** The prompt's text, if the request gave it and wants to know its tokens. */
  spelled?: SpelledPrompt;
  tells: Telling;
  /** Keeps a chat's tokens, prompt and answer, for the prompt that continues it. */
  remember?: (tokens: Int32Array) => void;
}

/** What preparing needs besides the request. */
export interface Preparing {
  model: NativeModel;
  contextSize: number;
  cancelled: CancelFlag;
  /** Whether the sampler guesses ahead. */
  guesses: boolean;
  /** The prompt's tokens, if another engine process began the answer. */
  earlierPrompt?: Int32Array;
}

/**
 * One task on the pool does all the work. The answer's constraint and parser stay in native code.
 */
export async function prepareChat(preparing: Preparing, template: string, request: ChatRequest): Promise<PreparedPrompt> {
  const { model, contextSize } = preparing;
  const { prediction = '' } = request;
  const options = { ...await optionsOf(preparing, request), ...thinkingOptions(request) };
  if (prediction !== '') options.prediction = await predictionOf(preparing, prediction);
  let prepared = await prepareMessages(preparing, template, request, options, contextSize);
  const dropped: string[] = [];
  if (!prepared.made && prepared.count >= contextSize && request.truncation === 'auto') {
    const shortened = await shorten(request, contextSize, (shorter, mostTokens) =>
      prepareMessages(preparing, template, shorter, options, mostTokens));
    if (shortened) {
      prepared = shortened.prepared;
      dropped.push(shortened.warning);
    }
  }
  const { made, unenforced, count, atLeast } = prepared;
  const warnings = [...dropped, ...schemaWarnings(unenforced, request.constraint, request.toolSources)];
  if (made?.thinks === false && request.thoughts?.budget !== undefined) {
    warnings.push(`${request.thoughts.param ?? 'The thinking budget'} has no effect: this chat template has no marks around thoughts.`);
  }
  if (made?.showsTools === false && callsOf(request) !== 'none') {
    warnings.push('tools have no effect: this chat template does not show them to the model.');
  }
  const strict = request.toolSources.filter((tool) => tool.strict);
  if (made?.enforcesCalls === false && strict.length > 0 && callsOf(request) !== 'none') {
    warnings.push(`strict has no effect for ${strict.map(({ name }) => JSON.stringify(name)).join(', ')}: this chat template puts no mark before a call. tool_choice "required" enforces it.`);
  }
  if (!made) throw count === 0 ? emptyPrompt(fieldOf(request)) : tooLong(preparing, count, atLeast ? 'at least ' : '', fieldOf(request), request.truncation === 'disabled' && userMessages(request) > 1);
  return {
    tokens: made.tokens,
    sampler: made.sampler,
    stops: [...request.stop, ...made.stops],
    minTokens: request.sampling.minTokens,
    generateMs: request.generateMs ?? 0,
    // Control tokens have no text, except those that mark tool calls and thinking in this template.
    shown: new Map(Array.from(made.preservedIds, (token) => [token, model.piece(token, true)])),
    parser: new ChatParser(made.parser, callsOf(request), made.enforcesCalls),
    warnings,
    guesses: preparing.guesses || prediction !== '',
    predicted: prediction !== '',
    echo: '',
    tells: request.tells ?? {},
    remember: (tokens) => model.remember(tokens),
  };
}

/** The request's field that holds the conversation. */
function fieldOf({ messageSources }: ChatRequest): string {
  return messageSources?.at(-1)?.replace(/\[.*$/, '') ?? 'messages';
}

function callsOf({ tools, toolChoice }: ChatRequest): Calls {
  if (tools === '' || toolChoice === 'none') return 'none';
  return toolChoice === 'required' ? 'required' : 'perhaps';
}

/** Prepares the chat if its prompt has fewer than `mostTokens` tokens. */
async function prepareMessages(
  { model, cancelled }: Preparing, template: string, request: ChatRequest, options: SamplerOptions, mostTokens: number,
): Promise<PreparedChat> {
  const { constraint } = request;
  return await model.prepareChat({
    ...templateInput(template, request),
    contextSize: mostTokens,
    strict: strictSources(constraint, request.toolSources),
    parseToolCalls: callsOf(request) !== 'none',
    cancelled,
  }, options).catch((thrown: unknown) => {
    throw grammarError(chatError(thrown, constraint, request.toolSources, request.messageSources), constraint);
  });
}

/** The prompt that a template makes of the messages, whatever its length. */
export async function renderChat(model: NativeModel, template: string, request: ChatRequest, cancelled: CancelFlag): Promise<Rendered> {
  const { prompt, literal } = await model.applyChatTemplate(templateInput(template, request)).catch((thrown: unknown) => {
    throw grammarError(chatError(thrown, request.constraint, request.toolSources, request.messageSources), request.constraint);
  });
  checkTokenizable(prompt, fieldOf(request));
  return { prompt, tokenCount: (await model.tokenize(prompt, true, true, { literal, known: true, cancelled })).length };
}

function thinkingOptions({ constraint, thoughts }: ChatRequest): Partial<SamplerOptions> {
  return {
    ...(constraint.kind === 'grammar' && constraint.afterThoughts ? { afterThoughts: true } : {}),
    ...(thoughts?.budget === undefined ? {} : { thinkingBudget: thoughts.budget }),
    ...(thoughts?.message === undefined ? {} : { thinkingMessage: thoughts.message }),
    ...(thoughts?.control ? { thinkingControl: true } : {}),
  };
}

function templateInput(template: string, request: ChatRequest): ChatInput {
  const { constraint } = request;
  const customInputs = request.toolSources.flatMap(({ input }, tool) => (input ? [{ tool, ...input }] : []));
  const templateKwargs: Record<string, string> = {};
  for (const [name, value] of Object.entries(request.templateKwargs)) templateKwargs[name] = JSON.stringify(value) ?? 'null';
  return {
    messages: request.messages,
    tools: request.tools,
    toolChoice: request.toolChoice,
    ...(request.parallelToolCalls === undefined ? {} : { parallelToolCalls: request.parallelToolCalls }),
    jsonSchema: constraint.kind === 'schema' ? constraint.schema : '',
    grammar: constraint.kind === 'grammar' ? constraint.grammar : '',
    addGenerationPrompt: request.addGenerationPrompt ?? true,
    ...(request.continuation === undefined ? {} : { continuation: request.continuation }),
    ...(customInputs.length === 0 ? {} : { customInputs }),
    enableThinking: request.enableThinking,
    templateKwargs,
    template: request.template || template,
  };
}

export async function prepareCompletion(addon: NativeAddon, preparing: Preparing, request: CompletionRequest): Promise<PreparedPrompt> {
  const { model, contextSize, cancelled, guesses } = preparing;
  const { constraint, prompt } = request;
  const options = await optionsOf(preparing, request);
  let warnings: string[] = [];
  if (constraint.kind === 'grammar') options.grammar = constraint.grammar;
  if (constraint.kind === 'schema') {
    const compiled = await addon.compileSchema(constraint.schema).catch((thrown: unknown) => { throw chatError(thrown, constraint, []); });
    warnings = schemaWarnings(compiled.unenforced, constraint, []);
    options.grammar = compiled.grammar;
    options.grammarKind = 'schema';
  }
  if (typeof prompt !== 'string') {
    checkTokens(prompt, model.info.vocabSize, 'prompt');
    if (prompt.length === 0) throw emptyPrompt('prompt');
  }
  const least = typeof prompt === 'string' ? leastTokens(model.info, prompt) : 0;
  if (least >= contextSize) throw tooLong(preparing, least, 'at least ', 'prompt');
  const filled = request.infill && typeof prompt === 'string' ? await infillTokens(preparing, request.infill, prompt, request.maxTokens) : undefined;
  if (filled) warnings = [...warnings, ...filled.warnings];
  const tokens = filled?.tokens ?? (typeof prompt === 'string' ? await promptTokens(preparing, prompt) : prompt);
  if (tokens.length >= contextSize) throw tooLong(preparing, tokens.length, '', 'prompt');
  if (cancelled[0] !== 0) throw new RecuaError('cancelled', 'The request was cancelled.');
  const sampler = await model.createSampler(options, tokens).catch((thrown: unknown) => {
    throw grammarError(RecuaError.from(thrown), constraint);
  });
  const echo = request.echo ? new TextDecoder().decode(await model.detokenize(tokens, false)) : '';
  const spelled = request.tells?.prompt && !filled && typeof prompt === 'string' ? { text: prompt, spellingOf: (token: number) => Array.from(model.piece(token, true)) } : undefined;
  return {
    ...(spelled ? { spelled } : {}),
    tokens,
    sampler,
    stops: request.stop,
    minTokens: request.sampling.minTokens,
    generateMs: request.generateMs ?? 0,
    shown: new Map(),
    parser: new PlainParser(),
    warnings,
    guesses,
    predicted: false,
    echo,
    tells: request.tells ?? {},
  };
}

/**
 * Names the source of a grammar that cannot be used: the request's text, or its schema or tools.
 */
function grammarError(error: RecuaError, constraint: Constraint): RecuaError {
  if (error.code !== 'invalid_grammar') return error;
  if (constraint.kind === 'grammar') return new RecuaError('invalid_grammar', error.message, { param: constraint.param ?? 'grammar' });
  return new RecuaError('invalid_schema', error.message.replace('The grammar', 'The grammar of the schema or the tools'));
}

function tooLong({ model, contextSize }: Pick<Preparing, 'model' | 'contextSize'>, count: number, atLeast: '' | 'at least ', param: string, canDrop = false): RecuaError {
  // The model's training size is the largest context there is.
  const isLargest = contextSize >= model.info.contextTrain;
  const message = `Expected a prompt of fewer than ${contextSize} tokens, which is the ${isLargest ? 'model\'s largest context' : 'context'}, got ${atLeast}${count}; `
    + `shorten it${isLargest ? '' : ' or raise the context size (--ctx-size, contextSize)'}.${canDrop ? ' With "truncation": "auto" the oldest turns are dropped.' : ''}`;
  return new RecuaError('context_length_exceeded', message, {
    param, details: { n_prompt_tokens: count, n_ctx: contextSize, n_ctx_train: model.info.contextTrain, ...(atLeast === '' ? {} : { counted: 'in part' }) },
  });
}

function emptyPrompt(param: string): RecuaError {
  return new RecuaError('invalid_value', `Expected at least one token in ${param}, got none; send some text.`, { param });
}

async function promptTokens({ model, cancelled }: Preparing, text: string): Promise<Int32Array> {
  const tokens = await model.tokenize(text, true, true, { cancelled });
  if (tokens.length > 0) return tokens;
  if (model.info.bosToken >= 0) return Int32Array.of(model.info.bosToken);
  throw emptyPrompt('prompt');
}
