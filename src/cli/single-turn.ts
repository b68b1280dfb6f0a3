// One prompt, one answer, then exit: all of `recua run`, and `recua chat` with -p or without a
// terminal. Only the answer goes to stdout.
import { isUtf8 } from 'node:buffer';
import { addAbortSignal } from 'node:stream';
import { defaults } from '../settings/config.js';
import type { Answer, Finish } from '../engine/api.js';
import type { ChatRequest } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { sizeText } from '../models/byte-size.js';
import type { ModelFile } from '../models/gguf/model-file.js';
import { thousandths } from '../engine/rounding.js';
import type { Answerer } from './answering/answerer.js';
import { misuse } from './flags/flags.js';
import { isDrawable, loadRendering } from './markdown/rendering.js';
import { ReaderGone, print, say, tame, toJson } from './terminal/output.js';

export interface Given {
  text: string;
  reasoning: string;
  finish: Finish;
}

/** Used if a file does not list its tokens. */
const anyTokenBytes = 1024;
/**
 * A limit for any context size: more than any model reads, and still short enough for one
 * JavaScript string.
 */
const mostPromptBytes = 256 * 1024 * 1024;

/** How much text a context can hold. */
export interface TextRoom {
  bytes: number;
  /** No larger context would hold more. */
  isLargest: boolean;
}

/** The longest text that can fit a context of this many tokens; 0: the model's own size. */
export function textRoom(file: Pick<ModelFile, 'contextTrain' | 'longestTokenBytes'>, contextSize: number): TextRoom {
  const trained = file.contextTrain || defaults.contextSize;
  const tokens = contextSize > 0 ? Math.min(contextSize, trained) : trained;
  const bytes = tokens * (file.longestTokenBytes || anyTokenBytes);
  return { bytes: Math.min(bytes, mostPromptBytes), isLargest: tokens === trained || bytes >= mostPromptBytes };
}

/**
 * The prompt from the command line, from stdin, or from both with a blank line between. Text that
 * cannot fit is not read to its end. `places` says where the command line takes a prompt,
 * `otherwise` what the user may have meant.
 */
export async function readPrompt(given: string, room: TextRoom, signal: AbortSignal, places = 'with -p <text>', otherwise = ''): Promise<string> {
  const piped = process.stdin.isTTY ? '' : (await readStdin(room, signal)).replace(/\r?\n$/, '');
  const prompt = [given, piped].filter((part) => part !== '').join('\n\n');
  if (prompt.trim() === '') throw misuse(`Expected a prompt: give it ${places} or on stdin.${otherwise}`);
  return prompt;
}

async function readStdin({ bytes: mostBytes, isLargest }: TextRoom, signal: AbortSignal): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of addAbortSignal(signal, process.stdin)) {
      chunks.push(chunk as Buffer);
      bytes += (chunk as Buffer).length;
      if (bytes > mostBytes) {
        throw new RecuaError('context_length_exceeded', `Expected a prompt that fits the context, which holds at most ${sizeText(mostBytes)} of text; stdin has more, `
          + `and the rest was not read. Send less${isLargest ? '; this model has no larger context' : ', or raise the context size with -c'}.`);
      }
    }
  } catch (cause) {
    if (signal.aborted) throw new RecuaError('cancelled', 'Stopped while reading the prompt.', { cause });
    // A closed stdin (`<&-`) counts as an empty one.
    if ((cause as NodeJS.ErrnoException).code !== 'EBADF') throw cause;
  }
  const whole = Buffer.concat(chunks);
  if (!isUtf8(whole)) say('Warning: stdin is not UTF-8 text; what is not becomes \ufffd. To convert it: iconv -f <encoding> -t UTF-8');
  return whole.toString('utf8');
}

/**
 * Sends the request and prints the answer as it comes, rendered on a terminal unless `raw`. With
 * `json`, it prints nothing. An abort throws `cancelled`.
 */
export async function answerOnce(answerer: Pick<Answerer, 'chat'>, request: ChatRequest, { json, raw }: { json: boolean; raw: boolean }, signal: AbortSignal): Promise<Given> {
  const printer = json ? silent : await openPrinter(raw);
  const running = answerer.chat(request, signal);
  const given = await stream(running, printer, signal);
  return { ...given, finish: await running.finished };
}

/** What `--json` prints. */
export async function printJson({ text, reasoning, finish }: Given, more: Record<string, unknown> = {}): Promise<void> {
  const { usage, timings } = finish;
  await print(toJson({
    content: text,
    ...(reasoning === '' ? {} : { reasoning }),
    finish_reason: finish.finishReason,
    usage: {
      prompt_tokens: usage.promptTokens,
      cached_tokens: usage.cachedTokens,
      completion_tokens: usage.completionTokens,
      total_tokens: usage.promptTokens + usage.completionTokens,
      ...(usage.draftedTokens === undefined ? {} : { drafted_tokens: usage.draftedTokens, accepted_tokens: usage.acceptedTokens }),
    },
    timings: {
      queue_ms: thousandths(timings.queueMs),
      prompt_ms: thousandths(timings.promptMs),
      generate_ms: thousandths(timings.generateMs),
      time_to_first_token_ms: thousandths(timings.queueMs + timings.promptMs),
      tokens_per_second: tokensPerSecond(finish),
    },
    seed: finish.seed,
    ...more,
  }));
}

/**
 * Counts only the tokens after the first: the generation time covers these. Null if there are none.
 */
export function tokensPerSecond({ usage, timings }: Pick<Finish, 'usage' | 'timings'>): number | null {
  const tokens = usage.completionTokens - 1;
  return tokens > 0 && timings.generateMs > 0 ? Math.round(tokens / timings.generateMs * 100_000) / 100 : null;
}

/** Prompt and answer, in tokens and tokens per second. */
export function speedLine({ usage, timings }: Pick<Finish, 'usage' | 'timings'>): string {
  const { promptTokens, cachedTokens, completionTokens } = usage;
  const read = promptTokens - cachedTokens;
  const readRate = timings.promptMs > 0 ? ` at ${Math.round(read / timings.promptMs * 1_000)} tokens/s` : '';
  const rate = tokensPerSecond({ usage, timings });
  return `recua: read ${read} of ${promptTokens} tokens${readRate}, wrote ${completionTokens}${rate === null ? '' : ` at ${rate} tokens/s`}.`;
}

/** Reports warnings, and an answer that was cut off. `maxTokens`: as the request had it. */
export function sayEnd({ finish }: Given, quiet: boolean, maxTokens: number): void {
  for (const warning of finish.warnings) say(`recua: ${warning}`);
  if (finish.finishReason !== 'length' || quiet) return;
  const { completionTokens: count } = finish.usage;
  say(`recua: the answer was cut off after ${count} token${count === 1 ? '' : 's'}${count < maxTokens ? ', because the context is full (--ctx-size)' : ''}.`);
}

/** Prints an answer as it comes. */
interface Printer {
  push(text: string): Promise<void>;
  /** Ends the last line, if it is open. */
  end(): Promise<void>;
}

const silent: Printer = { push: () => Promise.resolve(), end: () => Promise.resolve() };

async function openPrinter(raw: boolean): Promise<Printer> {
  if (!raw && isDrawable()) return await openRenderer();
  const safe = !raw && process.stdout.isTTY ? tame : (text: string) => text;
  let isOpen = true;
  return {
    push(text) {
      isOpen = !text.endsWith('\n');
      return print(safe(text));
    },
    end: () => (isOpen ? print('\n') : Promise.resolve()),
  };
}

async function openRenderer(): Promise<Printer> {
  const [rendering, { MarkdownWriter }] = await Promise.all([loadRendering(), import('./markdown/markdown-writer.js')]);
  const { size, libraries, looks } = rendering!;
  let waiting = '';
  const writer = new MarkdownWriter((text) => (waiting += text), size, libraries, looks);
  const flush = async () => {
    const text = waiting;
    waiting = '';
    if (text !== '') await print(text);
  };
  // While this process was stopped, others wrote to the terminal, at least the shell.
  const resumed = () => writer.giveWay();
  process.on('SIGCONT', resumed);
  return {
    push(text) {
      writer.push(tame(text));
      return flush();
    },
    end() {
      process.removeListener('SIGCONT', resumed);
      writer.end();
      return flush();
    },
  };
}

async function stream(running: Answer, printer: Printer, signal: AbortSignal): Promise<{ text: string; reasoning: string }> {
  let text = '';
  let reasoning = '';
  try {
    for await (const delta of running) {
      reasoning += delta.reasoning ?? '';
      if (delta.content === undefined) continue;
      text += delta.content;
      await printer.push(delta.content);
    }
  } catch (thrown) {
    if (thrown instanceof ReaderGone) throw thrown;
    if (text !== '') await printer.end();
    if (signal.aborted) throw new RecuaError('cancelled', 'Stopped.', { cause: thrown });
    throw thrown;
  }
  await printer.end();
  return { text, reasoning };
}
