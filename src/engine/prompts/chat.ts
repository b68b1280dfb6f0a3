// Chat and completion requests → prompt tokens, and answer text → deltas (content, reasoning, tool calls).
// Called by the engine; templates and parsers are llama.cpp's own, behind the addon.
import type { CancelFlag, ChatPrompt, NativeAddon, NativeModel, NativeParser, TokenizeOptions } from '../../addon/addon.js';
import { RecuaError } from '../../errors.js';
import type { ChatRequest, CompletionRequest, Delta, FinishReason } from '../protocol.js';
import { unconstrained, type GrammarSource } from '../text/sampling.js';
import { chatError, schemaWarnings } from '../text/schema-loss.js';
import { leastTokens } from '../text/text-length.js';

/** All that a request needs before its first step. */
export interface PreparedPrompt {
  /** The request's field that the tokens come from, for errors. */
  param: 'messages' | 'prompt';
  tokens: Int32Array;
  grammar: GrammarSource;
  stops: string[];
  /** Time to generate; 0 is without a limit. */
  generateMs: number;
  /** Control tokens that the parser must see, with their bytes; all others have no text. */
  shown: Map<number, Uint8Array>;
  parser: AnswerParser;
  /** What the answer's end says beside the parser's own. */
  warnings: string[];
}

/** Turns the text so far into what is new of the answer. */
export interface AnswerParser {
  push(whole: string): Delta | undefined;
  end(whole: string, reason: FinishReason): { delta: Delta | undefined; finishReason: FinishReason; warnings: string[] };
  /** For an answer that gets no end. Idempotent; nothing is pushed after it. */
  close(): void;
}

/** What preparing takes beside the request. */
export interface Preparing {
  model: NativeModel;
  contextSize: number;
  cancelled: CancelFlag;
}

export async function prepareChat(preparing: Preparing, template: string, request: ChatRequest): Promise<PreparedPrompt> {
  const { model, cancelled } = preparing;
  const { constraint } = request;
  // Rendering megabytes takes seconds. Templates may trim texts, and leave out parts of earlier answers.
  checkLeast(preparing, 'messages', request.messages.map(({ role, content }) => (role === 'assistant' ? '' : content?.trim() ?? '')));
  const templateKwargs: Record<string, string> = {};
  for (const [name, value] of Object.entries(request.templateKwargs)) templateKwargs[name] = JSON.stringify(value) ?? 'null';
  const tools = request.tools.map(({ type, function: called }) => ({ type, function: called }));
  const prompt = await model.applyChatTemplate({
    messages: JSON.stringify(request.messages),
    tools: tools.length > 0 ? JSON.stringify(tools) : '',
    toolChoice: request.toolChoice,
    ...(request.parallelToolCalls === undefined ? {} : { parallelToolCalls: request.parallelToolCalls }),
    jsonSchema: constraint.kind === 'schema' ? constraint.schema : '',
    grammar: constraint.kind === 'grammar' ? constraint.grammar : '',
    addGenerationPrompt: true,
    enableThinking: request.enableThinking,
    templateKwargs,
    template: request.template || template,
    cancelled,
  }).catch((thrown: unknown) => { throw chatError(thrown, constraint, request.tools); });
  const warnings = schemaWarnings(prompt.unenforced, constraint, request.tools);
  const parseToolCalls = request.tools.length > 0 && request.toolChoice !== 'none';
  return {
    param: 'messages',
    // As llama-server does: the template stripped a BOS of its own, tokenising adds the vocabulary's.
    tokens: await promptTokens(preparing, prompt.prompt, 'messages', prompt.literal),
    grammar: prompt,
    stops: [...request.stop, ...prompt.stops],
    generateMs: request.generateMs ?? 0,
    shown: shownTokens(model, prompt),
    parser: new ChatParser(model.createParser(prompt, parseToolCalls)),
    warnings,
  };
}

export async function prepareCompletion(addon: NativeAddon, preparing: Preparing, request: CompletionRequest): Promise<PreparedPrompt> {
  const { constraint, prompt } = request;
  let grammar = unconstrained;
  let warnings: string[] = [];
  if (constraint.kind === 'grammar') grammar = { ...unconstrained, grammar: constraint.grammar };
  if (constraint.kind === 'schema') {
    const compiled = await addon.compileSchema(constraint.schema).catch((thrown: unknown) => { throw chatError(thrown, constraint, []); });
    warnings = schemaWarnings(compiled.unenforced, constraint, []);
    grammar = { ...unconstrained, grammar: compiled.grammar, grammarKind: 'schema' };
  }
  if (typeof prompt !== 'string') {
    checkTokens(prompt, preparing.model.info.vocabSize, 'prompt');
    if (prompt.length === 0) throw emptyPrompt('prompt');
  }
  const tokens = typeof prompt === 'string' ? await promptTokens(preparing, prompt, 'prompt') : prompt;
  return { param: 'prompt', tokens, grammar, stops: request.stop, generateMs: 0, shown: new Map(), parser: new PlainParser(), warnings };
}

/** @throws RecuaError `invalid_value` where a token is not one of the vocabulary's. */
export function checkTokens(tokens: Iterable<number>, vocabSize: number, param: string): void {
  for (const token of tokens) {
    if (!Number.isInteger(token) || token < 0 || token >= vocabSize) {
      throw new RecuaError('invalid_value', `Expected tokens from 0 to ${vocabSize - 1} in ${param}, got ${token}.`, { param });
    }
  }
}

/** @throws RecuaError `context_length_exceeded` where there is no room for an answer. */
export function checkLength({ tokens, param }: PreparedPrompt, contextSize: number): void {
  if (tokens.length >= contextSize) throw tooLong(tokens.length, '', contextSize, param);
}

function tooLong(count: number, atLeast: '' | 'at least ', contextSize: number, param: string): RecuaError {
  const message = `Expected a prompt of fewer than ${contextSize} tokens, which is the context, got ${atLeast}${count}; shorten it or raise the context size.`;
  return new RecuaError('context_length_exceeded', message, { param, details: { n_prompt_tokens: count, n_ctx: contextSize } });
}

/** Before the texts are read. */
function checkLeast({ model, contextSize }: Preparing, param: string, texts: string[]): void {
  const least = leastTokens(model.info, ...texts);
  if (least >= contextSize) throw tooLong(least, 'at least ', contextSize, param);
}

function emptyPrompt(param: string): RecuaError {
  return new RecuaError('invalid_value', `Expected at least one token in ${param}, got none; send some text.`, { param });
}

async function promptTokens(preparing: Preparing, text: string, param: string, literal?: Int32Array): Promise<Int32Array> {
  const { model, cancelled } = preparing;
  checkLeast(preparing, param, [text]);
  const options: TokenizeOptions = literal ? { literal, cancelled } : { cancelled };
  const tokens = await model.tokenize(text, true, true, options);
  if (tokens.length > 0) return tokens;
  if (model.info.bosToken >= 0) return Int32Array.of(model.info.bosToken);
  throw emptyPrompt(param);
}

/** Control tokens have no text, but tool calls and thinking are marked with some: those the template names keep theirs. */
function shownTokens(model: NativeModel, prompt: ChatPrompt): Map<number, Uint8Array> {
  return new Map(Array.from(prompt.preservedIds, (token) => [token, model.piece(token, true)]));
}

/** A completion's text is its content. */
class PlainParser implements AnswerParser {
  #given = 0;

  push(whole: string): Delta | undefined {
    if (whole.length === this.#given) return undefined;
    const content = whole.slice(this.#given);
    this.#given = whole.length;
    return { content };
  }

  end(whole: string, finishReason: FinishReason) {
    return { delta: this.push(whole), finishReason, warnings: [] };
  }

  close(): void {}
}

/** A parse reads the whole text; this many times its duration passes before the next, so that long answers stay linear. */
const parsePause = 20;

/** llama.cpp's parser, which sees every answer: templates may wrap even plain content. What it can't parse is given as content. */
class ChatParser implements AnswerParser {
  readonly #parser: NativeParser;
  #nextAtMs = 0;
  #parsed = 0;
  #content = '';
  #reasoning = '';
  #callsGiven = false;

  constructor(parser: NativeParser) {
    this.#parser = parser;
  }

  push(whole: string): Delta | undefined {
    const startMs = performance.now();
    if (whole.length === this.#parsed || startMs < this.#nextAtMs) return undefined;
    this.#parsed = whole.length;
    try {
      return this.#give(this.#parser.parse(whole, true));
    } catch {
      // More text may mend it, and the end decides.
      return undefined;
    } finally {
      const nowMs = performance.now();
      this.#nextAtMs = nowMs + parsePause * (nowMs - startMs);
    }
  }

  end(whole: string, reason: FinishReason) {
    try {
      const delta = this.#give(this.#parser.parse(whole, false));
      const calls = this.#parser.message().toolCalls.length > 0;
      return { delta, finishReason: calls && reason === 'stop' ? ('tool_calls' as const) : reason, warnings: [] };
    } catch (error) {
      const cause = (error as Error).message.split('\n')[0];
      const warnings = [`The answer could not be parsed (${cause}); what follows the last sound part is given as plain content.`];
      return { delta: this.#rest(whole), finishReason: reason, warnings };
    } finally {
      this.close();
    }
  }

  /** V8 sees only a small object, and what the native parser holds would wait for the next collection of all. */
  close(): void {
    this.#parser.close();
  }

  /** What was not given yet of a text that does not parse: nothing may be lost. */
  #rest(whole: string): Delta | undefined {
    if (this.#callsGiven) {
      // A call was begun in the stream: its arguments are the text. Flush what the parser still has.
      try {
        return this.#give(this.#parser.parse(whole, true));
      } catch {
        return undefined;
      }
    }
    let from = 0;
    for (const given of [this.#reasoning, this.#content]) {
      const at = whole.indexOf(given, from);
      if (at >= 0) from = at + given.length;
    }
    return from < whole.length ? { content: whole.slice(from) } : undefined;
  }

  #give(delta: Delta): Delta | undefined {
    if (delta.content) this.#content += delta.content;
    if (delta.reasoning) this.#reasoning += delta.reasoning;
    if (delta.toolCalls?.length) this.#callsGiven = true;
    return delta.content || delta.reasoning || delta.toolCalls?.length ? delta : undefined;
  }
}
