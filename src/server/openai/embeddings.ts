// POST /v1/embeddings: texts or token arrays → unit-length vectors, as numbers or as base64 of
// little-endian float32. Route mounted by app. Large replies are written in slices, since
// converting 2,048 vectors to JSON takes a second.
import { endianness } from 'node:os';
import { setImmediate } from 'node:timers/promises';
import type { RequestHandler, Response } from 'express';
import type { Embedded } from '../../engine/api.js';
import type { Lease } from '../../engine/pool-api.js';
import type { ModelDescription } from '../../engine/protocol.js';
import { anyModel, inference, type Exchange } from '../exchange/admission.js';
import { askerOf } from '../exchange/ask-exchange.js';
import { wrongType, wrongValue, type Fields } from '../../request/fields.js';
import { checkUnknown } from '../../request/unknown-fields.js';
import { readTokens } from '../../request/tokens.js';
import type { Gateway } from '../http/gateway.js';
import { lendBody } from '../body/json-body.js';
import { shorten } from '../exchange/vectors.js';
import { factsOf, noteTokens } from '../http/facts.js';

const maxInputs = 2_048;
/** Floats to convert to text before yielding to the event loop: about 5 ms. */
const floatsPerSlice = 16_384;

export function embeddings(gateway: Gateway): RequestHandler {
  return inference(gateway, (res) => new EmbeddingExchange(gateway, res));
}

class EmbeddingExchange implements Exchange {
  readonly #gateway: Gateway;
  readonly #res: Response;
  #id = '';
  #warnings: readonly string[] = [];
  #working: Promise<Embedded> | undefined;
  #format: Format = { encoding: 'float', dimensions: undefined };

  constructor(gateway: Gateway, res: Response) {
    this.#gateway = gateway;
    this.#res = res;
    factsOf(res).operation = 'embeddings';
  }

  check(body: Fields): void {
    readEmbeddingRequest(body);
    checkUnknown(body);
  }

  begin(body: Fields, { id, engine, model }: Lease, signal: AbortSignal, warnings: readonly string[]): void {
    const { inputs, format } = readEmbeddingRequest(body, model);
    this.#format = format;
    this.#warnings = [...warnings, ...checkUnknown(body)];
    this.#id = id;
    this.#working = engine.embed({ inputs, asker: askerOf(this.#gateway, this.#res) }, signal, lendBody(this.#res));
  }

  async answer(): Promise<void> {
    const embedded = await this.#working!;
    noteTokens(this.#res, embedded.tokenCounts.reduce((sum, count) => sum + count, 0));
    this.#res.type('json').send(await embeddingList(this.#id, embedded, this.#format, this.#warnings));
  }
}

export function readEmbeddingRequest(body: Fields, model: Pick<ModelDescription, 'vocabSize' | 'embeddingSize'> = anyModel): { inputs: (string | Int32Array)[]; format: Format } {
  return { inputs: readInputs(body, model), format: readFormat(body, model) };
}

interface Format {
  encoding: 'float' | 'base64';
  dimensions: number | undefined;
}

function readFormat(body: Fields, { embeddingSize }: Pick<ModelDescription, 'embeddingSize'>): Format {
  body.allow('user');
  return {
    encoding: body.word('encoding_format', ['float', 'base64']) ?? 'float',
    dimensions: body.integer('dimensions', { min: 1, max: embeddingSize }),
  };
}

/** One entry per input: a string, or its tokens. */
function readInputs(body: Fields, { vocabSize }: Pick<ModelDescription, 'vocabSize'>): (string | Int32Array)[] {
  const input = body.get('input');
  const expected = 'a string, an array of strings, or tokens';
  if (typeof input === 'string') return [readText(input, 'input')];
  if (!Array.isArray(input)) throw wrongType('input', expected, input);
  if (input.length === 0) throw wrongValue('input', 'at least one input', input);
  // A flat array of numbers is one input of tokens.
  if (typeof input[0] === 'number') return [readTokens(input, 'input', vocabSize)];
  if (input.length > maxInputs) throw wrongValue('input', `at most ${maxInputs} inputs`, input);
  return input.map((value: unknown, index) => {
    const param = `input[${index}]`;
    if (Array.isArray(value)) return readTokens(value, param, vocabSize);
    if (typeof value === 'string') return readText(value, param);
    throw wrongType(param, 'a string or an array of tokens', value);
  });
}

function readText(text: string, param: string): string {
  if (text === '') throw wrongValue(param, 'a string that is not empty', text);
  return text;
}

/** The response body as JSON text. */
async function embeddingList(model: string, { vectors, tokenCounts }: Embedded, { encoding, dimensions }: Format, warnings: readonly string[]): Promise<string> {
  const rows: string[] = [];
  let floats = 0;
  for (const [index, vector] of vectors.entries()) {
    const row = shorten(vector, dimensions);
    const json = encoding === 'base64' ? `"${toBase64(row)}"` : `[${row.join(',')}]`;
    rows.push(`{"object":"embedding","index":${index},"embedding":${json}}`);
    floats += row.length;
    if (encoding === 'float' && floats >= floatsPerSlice) {
      floats = 0;
      await setImmediate();
    }
  }
  const tokens = tokenCounts.reduce((sum, count) => sum + count, 0);
  const usage = JSON.stringify({ prompt_tokens: tokens, total_tokens: tokens });
  const told = warnings.length === 0 ? '' : `,"warnings":${JSON.stringify(warnings)}`;
  return `{"object":"list","data":[${rows.join(',')}],"model":${JSON.stringify(model)},"usage":${usage}${told}}`;
}

function toBase64(vector: Float32Array): string {
  const bytes = Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength);
  return (endianness() === 'LE' ? bytes : Buffer.from(bytes).swap32()).toString('base64');
}
