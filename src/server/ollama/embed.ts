// POST /api/embed, and the older /api/embeddings: texts → vectors of length 1. Texts are never
// truncated: a text longer than the context is an error. As in Ollama, a request without a text
// loads the model, and gets no vectors.
import type { RequestHandler } from 'express';
import type { ModelDescription } from '../../engine/protocol.js';
import { wrongType, wrongValue, type Fields } from '../../request/fields.js';
import { anyModel } from '../exchange/admission.js';
import { askerOf, askRoute } from '../exchange/ask-exchange.js';
import { entriesOf, shorten } from '../exchange/vectors.js';
import type { Gateway } from '../http/gateway.js';
import { noteTokens } from '../http/facts.js';

const maxInputs = 2_048;

export function embed(gateway: Gateway): RequestHandler {
  return askRoute(gateway, readEmbed, async ({ inputs, old, dimensions }, { id, engine }, signal, lend, res) => {
    if (inputs.length === 0) {
      return old ? { embedding: [] } : { model: id, embeddings: [], total_duration: 0, load_duration: 0, prompt_eval_count: 0 };
    }
    const startMs = performance.now();
    const { vectors, tokenCounts } = await engine.embed({ inputs, asker: askerOf(gateway, res) }, signal, lend());
    const tokens = tokenCounts.reduce((sum, count) => sum + count, 0);
    noteTokens(res, tokens);
    const nanoseconds = Math.round((performance.now() - startMs) * 1e6);
    if (old) return { embedding: Array.from(shorten(vectors[0]!, dimensions)) };
    const embeddings = entriesOf(vectors, dimensions, (vector) => Array.from(vector));
    return { model: id, embeddings, total_duration: nanoseconds, load_duration: 0, prompt_eval_count: tokens };
  }, 'embeddings');
}

export interface EmbedQuestion {
  inputs: string[];
  /** The request has the older format. */
  old: boolean;
  dimensions: number | undefined;
}

export function readEmbed(body: Fields, { model }: { model: Pick<ModelDescription, 'embeddingSize'> } = { model: anyModel }): EmbedQuestion {
  // Neither has an effect: texts are never truncated, and the model is already loaded.
  body.object('options');
  body.boolean('truncate');
  return { ...readInputs(body), dimensions: body.integer('dimensions', { min: 1, max: model.embeddingSize }) };
}

function readInputs(body: Fields): { inputs: string[]; old: boolean } {
  const old = body.get('input') === undefined && body.get('prompt') !== undefined;
  const param = old ? 'prompt' : 'input';
  const input = body.get(param);
  if (typeof input === 'string') return { inputs: input === '' ? [] : [input], old };
  if (old || !Array.isArray(input)) throw wrongType(param, old ? 'a string' : 'a string or an array of strings', input);
  return { inputs: (body.array(param, maxInputs) ?? []).map((text, index) => checked(text, `${param}[${index}]`)), old };
}

function checked(text: unknown, param: string): string {
  if (typeof text !== 'string') throw wrongType(param, 'a string', text);
  if (text === '') throw wrongValue(param, 'a string that is not empty', text);
  return text;
}
