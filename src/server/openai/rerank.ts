// POST /v1/rerank: a query and documents → the documents' places in the order of relevance, in
// Jina's and Cohere's words. Route mounted by app.
import type { RequestHandler, Response } from 'express';
import type { Reranked } from '../../engine/api.js';
import type { Lease } from '../../engine/pool-api.js';
import { inference, type Exchange } from '../exchange/admission.js';
import { Fields, int32Max, isObject, wrongType, wrongValue } from '../../request/fields.js';
import type { Gateway } from '../http/gateway.js';
import { noteTokens } from '../http/request-log.js';

const maxDocuments = 2_048;

export function rerank(gateway: Gateway): RequestHandler {
  return inference(gateway, (res) => new RerankExchange(res));
}

class RerankExchange implements Exchange {
  readonly #res: Response;
  #id = '';
  #working: Promise<Reranked> | undefined;
  #top: number | undefined;
  /** Where the answer is to hold them: their memory is counted until that is sent. */
  #documents: readonly string[] | undefined;

  constructor(res: Response) {
    this.#res = res;
  }

  check(body: Fields): void {
    readRerank(body);
  }

  begin(body: Fields, { id, engine }: Lease, signal: AbortSignal): void {
    const { query, documents, top, withText } = readRerank(body);
    this.#id = id;
    this.#top = top;
    if (withText) this.#documents = documents;
    this.#working = engine.rerank({ query, documents }, signal);
  }

  async answer(): Promise<void> {
    const { scores, tokenCounts } = await this.#working!;
    const results = Array.from(scores, (score, index) => ({
      index, relevance_score: score, ...(this.#documents ? { document: { text: this.#documents[index] } } : {}),
    })).sort((a, b) => b.relevance_score - a.relevance_score).slice(0, this.#top);
    const tokens = tokenCounts.reduce((sum, count) => sum + count, 0);
    noteTokens(this.#res, tokens);
    this.#res.json({ object: 'list', model: this.#id, usage: { prompt_tokens: tokens, total_tokens: tokens }, results });
  }
}

function readRerank(body: Fields): { query: string; documents: string[]; top: number | undefined; withText: boolean } {
  const query = body.string('query');
  if (query === undefined) throw wrongType('query', 'a string', undefined);
  if (query === '') throw wrongValue('query', 'a string that is not empty', query);
  return {
    query, documents: readDocuments(body),
    top: body.integer('top_n', { min: 1, max: int32Max }),
    withText: body.boolean('return_documents') ?? false,
  };
}

/** Texts, or objects with a `text`, as both services take them. */
function readDocuments(body: Fields): string[] {
  const documents = body.array('documents', maxDocuments);
  if (documents === undefined) throw wrongType('documents', 'an array of strings', undefined);
  if (documents.length === 0) throw wrongValue('documents', 'at least one document', documents);
  return documents.map((document, index) => {
    const param = `documents[${index}]`;
    const text = isObject(document) ? Fields.of(document, param).string('text') : document;
    if (typeof text !== 'string') throw wrongType(param, 'a string, or an object with a text', document);
    if (text === '') throw wrongValue(param, 'a string that is not empty', text);
    return text;
  });
}
