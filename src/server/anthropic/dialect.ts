// Anthropic's dialect: maps paths to routes. Mounted by app.
import type { NextFunction, Request, Response } from 'express';
import { chatRoute } from '../exchange/chat-exchange.js';
import type { ChatDialect, Dialect } from '../exchange/dialect.js';
import { renderRoute } from '../exchange/ask-exchange.js';
import { sse } from '../http/stream.js';
import { MessageWriter, type MessageAsked } from './answer.js';
import { errorBody } from './error-body.js';
import { readMessageRequest } from './message-request.js';
import { operations as about } from './operations.js';

const messages: ChatDialect<MessageAsked> = {
  operation: 'chat',
  framing: sse,
  read(body, context) {
    const { request, ...asked } = readMessageRequest(body, context);
    return { ...asked, prompts: [[request]] };
  },
  writer: (asked, model) => new MessageWriter(asked, model),
};

export const anthropic: Dialect = {
  before: [nameRequest],
  under: ['/v1/messages'],
  errorShape: errorBody,
  routes: (gateway) => [
    { method: 'post', paths: ['/v1/messages'], about: about.create, handler: chatRoute(gateway, messages) },
    {
      method: 'post', paths: ['/v1/messages/count_tokens'], about: about.count,
      handler: renderRoute(gateway, readMessageRequest, ({ tokenCount }) => ({ input_tokens: tokenCount })),
    },
  ],
};

/** Anthropic's clients look for the id here. */
function nameRequest(_req: Request, res: Response, next: NextFunction): void {
  res.set('request-id', String(res.getHeader('x-request-id')));
  next();
}
