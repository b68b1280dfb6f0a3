// POST /v1/rerank: a query and documents → the documents' places in the order of relevance, in Jina's and Cohere's words.
// Route mounted by app.
import type { Request, RequestHandler, Response } from 'express';
import { readModelName } from './chat-request.js';
import { Fields, int32Max, isObject, wrongType, wrongValue } from '../../request/fields.js';
import { readyModel, type Gateway } from '../http/gateway.js';
import { takeBody } from '../body/json-body.js';
import { checkModel } from './models.js';
import { noteTokens } from '../http/request-log.js';
import { failureOf } from '../http/traffic.js';

const maxDocuments = 2_048;

export function rerank({ engine, served, traffic }: Gateway): RequestHandler {
  return async (req: Request, res: Response) => {
    readyModel(engine);
    const body = Fields.of(takeBody(req));
    checkModel(served, readModelName(body));
    const query = body.string('query');
    if (query === undefined) throw wrongType('query', 'a string', undefined);
    if (query === '') throw wrongValue('query', 'a string that is not empty', query);
    const documents = readDocuments(body);
    const most = body.integer('top_n', { min: 1, max: int32Max });
    const withText = body.boolean('return_documents') ?? false;
    const signal = traffic.enter(res);
    try {
      // The documents may be part of the answer: their memory is counted until that is sent.
      const { scores, tokenCounts } = await engine.rerank({ query, documents }, signal);
      const results = Array.from(scores, (score, index) => ({
        index, relevance_score: score, ...(withText ? { document: { text: documents[index] } } : {}),
      })).sort((a, b) => b.relevance_score - a.relevance_score).slice(0, most);
      const tokens = tokenCounts.reduce((sum, count) => sum + count, 0);
      noteTokens(res, tokens);
      res.json({ object: 'list', model: served.id, usage: { prompt_tokens: tokens, total_tokens: tokens }, results });
    } catch (thrown) {
      throw failureOf(thrown, signal);
    }
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
