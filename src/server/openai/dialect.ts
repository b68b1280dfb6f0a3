// OpenAI's dialect: which path is answered by which route. Mounted by app.
import { chatRoute } from '../exchange/chat-exchange.js';
import type { ChatAsked, ChatDialect, Dialect } from '../exchange/dialect.js';
import { sse } from '../http/stream.js';
import { ChatWriter, type ChatShape } from './answer.js';
import { times } from './answer-fields.js';
import { readChatRequest } from './chat-request.js';
import { CompletionWriter } from './completion-answer.js';
import { readCompletionRequest, type CompletionBody } from './completion-request.js';
import { control } from './control.js';
import { embeddings } from './embeddings.js';
import { modelEvents } from './model-events.js';
import { modelRoutes } from './models.js';
import { rerank } from './rerank.js';

const chat: ChatDialect<ChatAsked & ChatShape> = {
  framing: sse,
  read(body, context) {
    const { request, ...asked } = readChatRequest(body, context);
    return { ...asked, prompts: [times(request, asked.count)] };
  },
  writer: (asked, model) => new ChatWriter(asked, model),
};

const complete: ChatDialect<CompletionBody> = {
  framing: sse,
  read: readCompletionRequest,
  writer: (asked, model) => new CompletionWriter(asked, model),
};

export const openai: Dialect = {
  before: [],
  routes(gateway) {
    const models = modelRoutes(gateway);
    return [
      { method: 'get', paths: ['/v1/models', '/models'], handler: models.list },
      { method: 'get', paths: ['/v1/models/*id'], handler: models.get },
      { method: 'post', paths: ['/models/load'], handler: models.load },
      { method: 'post', paths: ['/models/unload'], handler: models.unload },
      { method: 'get', paths: ['/models/sse'], handler: modelEvents(gateway) },
      { method: 'post', paths: ['/v1/chat/completions', '/chat/completions'], handler: chatRoute(gateway, chat) },
      { method: 'post', paths: ['/v1/chat/completions/control', '/chat/completions/control'], handler: control(gateway) },
      { method: 'post', paths: ['/v1/completions', '/completions'], handler: chatRoute(gateway, complete) },
      { method: 'post', paths: ['/v1/embeddings', '/embeddings'], handler: embeddings(gateway) },
      { method: 'post', paths: ['/v1/rerank', '/v1/reranking', '/rerank', '/reranking'], handler: rerank(gateway) },
    ];
  },
};
