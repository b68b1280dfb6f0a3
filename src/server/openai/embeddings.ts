// POST /v1/embeddings: texts or token arrays → unit-length vectors, as numbers or as base64 of
// little-endian float32. Route mounted by app.
import { endianness } from 'node:os';
import type { RequestHandler } from 'express';
import type { ModelDescription } from '../../engine/protocol.js';
import { anyModel } from '../exchange/admission.js';
import { askerOf, askRoute } from '../exchange/ask-exchange.js';
import { wrongType, wrongValue, type Fields } from '../../request/fields.js';
import { readTokens } from '../../request/tokens.js';
import type { Gateway } from '../http/gateway.js';
import { entriesOf } from '../exchange/vectors.js';
import { noteTokens } from '../http/facts.js';

const maxInputs = 2_048;

export function embeddings(gateway: Gateway): RequestHandler {
  return askRoute(
    gateway,
    (body, { model }) => readEmbeddingRequest(body, model),
    async ({ inputs, format: { encoding, dimensions } }, { id, engine }, signal, lend, res) => {
      const { vectors, tokenCounts } = await engine.embed({ inputs, asker: askerOf(gateway, res) }, signal, lend());
      const tokens = tokenCounts.reduce((sum, count) => sum + count, 0);
      noteTokens(res, tokens);
      const jsonOf = encoding === 'base64' ? toBase64 : (vector: Float32Array) => Array.from(vector);
      const data = entriesOf(vectors, dimensions, (vector, index) => ({ object: 'embedding', index, embedding: jsonOf(vector) }));
      return { object: 'list', data, model: id, usage: { prompt_tokens: tokens, total_tokens: tokens } };
    },
    'embeddings',
  );
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

function toBase64(vector: Float32Array): string {
  const bytes = Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength);
  return (endianness() === 'LE' ? bytes : Buffer.from(bytes).swap32()).toString('base64');
}
