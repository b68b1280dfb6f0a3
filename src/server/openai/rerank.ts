// POST /v1/rerank: a query and documents → the documents' indices in order of relevance, in the
// format of Jina and Cohere, or with `texts` instead of `documents` in that of Text Embeddings
// Inference. Mounted by dialect.
import type { RequestHandler } from 'express';
import { askerOf, askRoute } from '../exchange/ask-exchange.js';
import { Fields, int32Max, isObject, wrongType, wrongValue } from '../../request/fields.js';
import type { Gateway } from '../http/gateway.js';
import { noteTokens } from '../http/facts.js';

const maxDocuments = 2_048;

interface Question {
  query: string;
  documents: string[];
  top: number | undefined;
  withText: boolean;
  /** The request has the format of Text Embeddings Inference. */
  asTexts: boolean;
}

export function rerank(gateway: Gateway): RequestHandler {
  return askRoute(gateway, readRerank, async ({ query, documents, top, withText, asTexts }, { id, engine }, signal, lend, res) => {
    // If the reply contains the documents, their memory counts until it is sent.
    const texts = withText ? documents : undefined;
    const { scores, tokenCounts } = await engine.rerank(
      { query, documents, asker: askerOf(gateway, res) },
      signal,
      withText ? undefined : lend(),
    );
    const tokens = tokenCounts.reduce((sum, count) => sum + count, 0);
    noteTokens(res, tokens);
    const order = Array.from(scores, (score, index) => ({ score, index })).sort((a, b) => b.score - a.score).slice(0, top);
    if (asTexts) return order.map(({ index, score }) => ({ index, score, ...(texts ? { text: texts[index] } : {}) }));
    const results = order.map(({ index, score }) => ({
      index,
      relevance_score: score,
      ...(texts ? { document: { text: texts[index] } } : {}),
    }));
    return { object: 'list', model: id, usage: { prompt_tokens: tokens, total_tokens: tokens }, results };
  }, 'rerank');
}

export function readRerank(body: Fields): Question {
  const query = body.string('query');
  if (query === undefined) throw wrongType('query', 'a string', undefined);
  if (query === '') throw wrongValue('query', 'a string that is not empty', query);
  const asTexts = body.get('texts') !== undefined && body.get('documents') === undefined;
  return {
    query, documents: readDocuments(body, asTexts ? 'texts' : 'documents'),
    top: body.integer('top_n', { min: 1, max: int32Max }),
    withText: body.boolean(asTexts ? 'return_text' : 'return_documents') ?? false,
    asTexts,
  };
}

/** Texts, or objects with a `text`, as those services accept. */
function readDocuments(body: Fields, name: string): string[] {
  const documents = body.array(name, maxDocuments);
  if (documents === undefined) throw wrongType(name, 'an array of strings', undefined);
  if (documents.length === 0) throw wrongValue(name, 'at least one document', documents);
  return documents.map((document, index) => {
    const param = `${name}[${index}]`;
    const text = isObject(document) ? Fields.of(document, param).string('text') : document;
    if (typeof text !== 'string') throw wrongType(param, 'a string, or an object with a text', document);
    if (text === '') throw wrongValue(param, 'a string that is not empty', text);
    return text;
  });
}
