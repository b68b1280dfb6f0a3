// OpenAI's dialect: maps paths to routes. Mounted by app.
import { chatRoute } from '../exchange/chat-exchange.js';
import type { ChatAsked, ChatDialect, Dialect } from '../exchange/dialect.js';
import { fromPrograms } from '../access/pages.js';
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
import { operations as about } from './operations.js';
import { rerank } from './rerank.js';

const chat: ChatDialect<ChatAsked & ChatShape> = {
  operation: 'chat',
  framing: sse,
  read(body, context) {
    const { request, ...asked } = readChatRequest(body, context);
    return { ...asked, prompts: [times(request, asked.count)] };
  },
  writer: (asked, model) => new ChatWriter(asked, model),
};

const complete: ChatDialect<CompletionBody> = {
  operation: 'text_completion',
  framing: sse,
  read: readCompletionRequest,
  writer: (asked, model) => new CompletionWriter(asked, model),
};

export const openai: Dialect = {
  before: [],
  routes(gateway) {
    const models = modelRoutes(gateway);
    return [
      { method: 'get', paths: ['/v1/models', '/models'], about: about.models, handler: models.list },
      { method: 'get', paths: ['/v1/models/*id'], about: about.model, handler: models.get },
      { method: 'post', paths: ['/models/load'], about: about.load, isForAdmin: true, handler: fromPrograms(models.load) },
      { method: 'post', paths: ['/models/unload'], about: about.unload, isForAdmin: true, handler: fromPrograms(models.unload) },
      { method: 'get', paths: ['/models/sse'], about: about.events, handler: modelEvents(gateway) },
      { method: 'post', paths: ['/v1/chat/completions', '/chat/completions'], about: about.chat, handler: chatRoute(gateway, chat) },
      { method: 'post', paths: ['/v1/chat/completions/control', '/chat/completions/control'], about: about.control, endsWork: true, handler: control(gateway) },
      { method: 'post', paths: ['/v1/completions', '/completions'], about: about.complete, handler: chatRoute(gateway, complete) },
      { method: 'post', paths: ['/v1/embeddings', '/embeddings'], about: about.embed, handler: embeddings(gateway) },
      { method: 'post', paths: ['/v1/rerank', '/v1/reranking', '/rerank', '/reranking'], about: about.rerank, handler: rerank(gateway) },
    ];
  },
};
