// The requests of a batch. Every line of the file is checked before the first request runs, and
// read again when its turn comes.
import type { FileHandle } from 'node:fs/promises';
import { RecuaError } from '../../errors.js';
import { Fields, isObject, wrongType, wrongValue } from '../../request/fields.js';
import { weighJson } from '../../request/json-weight.js';
import { linesOf } from './lines.js';
import type { BatchProblem } from './batch-store.js';

/** OpenAI's limit. */
const mostRequests = 50_000;
/** Blank lines included: one after each request. */
const mostLines = 2 * mostRequests;
const mostProblems = 100;
const mostIdLength = 512;
/** OpenAI allows one in a batch; looking for a name that no model has takes long. */
const mostModels = 20;
/** No name is longer, and no path. */
const mostModelLength = 4_096;

export const endpoints = ['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/responses'] as const;

/** The place of a request's line in the file. */
export interface BatchRequest {
  customId: string;
  offset: number;
  length: number;
}

/** Rejects with the signal's reason once it aborts. */
export async function checkRequests(
  path: string,
  endpoint: string,
  mostBytes: number,
  signal: AbortSignal,
): Promise<{ requests: BatchRequest[]; problems: BatchProblem[] }> {
  const requests: BatchRequest[] = [];
  const problems: BatchProblem[] = [];
  const known = new Set<string>();
  let number = 0;
  signal.throwIfAborted();
  for await (const { bytes, length, offset } of linesOf(path, mostBytes)) {
    signal.throwIfAborted();
    number++;
    if (number > mostLines) {
      problems.push({
        code: 'invalid_value',
        message: `Expected at most ${mostLines} lines, with blank ones.`,
        param: 'input_file_id',
        line: number,
      });
      break;
    }
    if (length <= mostBytes && bytes.toString().trim() === '') continue;
    try {
      if (length > mostBytes) throw new RecuaError('body_too_large', `Expected lines of at most ${mostBytes} bytes, got one of ${length}.`);
      const { customId } = readRequest(bytes, endpoint);
      if (known.has(customId))
        throw new RecuaError(
          'invalid_value',
          `Expected a different custom_id in each line, got ${JSON.stringify(customId.slice(0, 80))} again.`,
          { param: 'custom_id' },
        );
      known.add(customId);
      requests.push({ customId, offset, length });
      if (requests.length > mostRequests) throw new RecuaError('invalid_value', `Expected at most ${mostRequests} requests.`);
    } catch (thrown) {
      const { code, message, param } = RecuaError.from(thrown);
      problems.push({ code, message, param: param ?? null, line: number });
      if (problems.length >= mostProblems || requests.length > mostRequests) break;
    }
  }
  if (requests.length === 0 && problems.length === 0)
    problems.push({ code: 'invalid_value', message: 'The file has no requests.', param: 'input_file_id', line: null });
  return { requests, problems };
}

/**
 * The models of all requests, if `has` finds none of them; undefined if it finds one, if none can
 * be read, or if they are too many to look for.
 */
export async function modelsOfOthers(
  has: (model: string | undefined) => Promise<boolean>,
  path: string,
  endpoint: string,
  mostBytes: number,
): Promise<ReadonlySet<string | undefined> | undefined> {
  const tried = new Set<string | undefined>();
  for await (const { bytes } of linesOf(path, mostBytes)) {
    let model: unknown;
    try {
      ({ model } = readRequest(bytes, endpoint).body as { model?: unknown });
    } catch {
      continue; // checkRequests() says what is wrong
    }
    const name = typeof model === 'string' ? model : undefined;
    if (tried.has(name) || (name?.length ?? 0) > mostModelLength) continue;
    tried.add(name);
    if (tried.size > mostModels || await has(name)) return undefined;
  }
  return tried.size === 0 ? undefined : tried;
}

/** The text of a request's body. */
export async function bodyOf(file: FileHandle, { offset, length }: BatchRequest, endpoint: string): Promise<string> {
  const bytes = Buffer.alloc(length);
  await file.read(bytes, 0, length, offset);
  return JSON.stringify(readRequest(bytes, endpoint).body);
}

function readRequest(bytes: Buffer, endpoint: string): { customId: string; body: object } {
  let value: unknown;
  weighJson(bytes, 'The line');
  let text: string;
  try {
    // Some editors start a file with a byte order mark, which the decoder leaves out.
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new RecuaError('invalid_json', 'The line is not valid UTF-8.', { cause });
  }
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new RecuaError('invalid_json', `The line is not valid JSON: ${(cause as Error).message}.`, { cause });
  }
  if (!isObject(value)) throw wrongType('line', 'an object', value);
  const line = Fields.of(value);
  const customId = line.name('custom_id', mostIdLength);
  line.word('method', ['POST']);
  const url = line.string('url');
  if (url !== endpoint) throw wrongValue('url', `the endpoint of the batch, ${endpoint},`, url);
  const body = line.object('body');
  if (body === undefined) throw wrongType('body', 'an object', undefined);
  for (const name of ['stream', 'background']) {
    if (body[name] === true) throw wrongValue(`body.${name}`, 'none in a batch', true);
  }
  return { customId, body };
}
