// OpenAI's Responses: which path is answered by which route. Mounted by app.
import type { Request } from 'express';
import { chatRoute } from '../exchange/chat-exchange.js';
import type { ChatDialect, Dialect, Route } from '../exchange/dialect.js';
import { renderRoute } from '../exchange/ask-exchange.js';
import type { Gateway } from '../http/gateway.js';
import { sse } from '../http/stream.js';
import { ResponseWriter, type ResponseAsked } from './answer.js';
import { readResponseRequest } from './response-request.js';
import { ResponseStore } from './store.js';

export const responses: Dialect = {
  before: [],
  routes: (gateway) => routesOver(gateway, new ResponseStore()),
};

function routesOver(gateway: Gateway, store: ResponseStore): readonly Route[] {
  const create: ChatDialect<ResponseAsked> = {
    framing: sse,
    keepsBody: true,
    read(body, context) {
      const { request, ...asked } = readResponseRequest(body, context, store);
      return { ...asked, prompts: [[request]] };
    },
    writer: (asked, model) => new ResponseWriter(asked, model, store),
  };
  const paths = (rest: string): string[] => [`/v1/responses${rest}`, `/responses${rest}`];
  return [
    { method: 'post', paths: paths(''), handler: chatRoute(gateway, create) },
    {
      method: 'post', paths: paths('/input_tokens'),
      handler: renderRoute(gateway, (body, context) => readResponseRequest(body, context, store), ({ tokenCount }) => (
        { object: 'response.input_tokens', input_tokens: tokenCount }
      )),
    },
    { method: 'get', paths: paths('/:id/input_items'), handler: (req, res) => void res.type('json').send(store.get(idOf(req)).input) },
    {
      method: 'get', paths: paths('/:id'), handler: (req, res) => void res.type('json').send(store.get(idOf(req)).response),
      also: { method: 'delete', handler: (req, res) => void res.json(store.remove(idOf(req))) },
    },
  ];
}

function idOf(req: Request): string {
  return String(req.params['id']);
}
