// Ollama's dialect: maps paths to routes. Mounted by app.
import { chatRoute } from '../exchange/chat-exchange.js';
import type { ChatDialect, Dialect } from '../exchange/dialect.js';
import { ndjson } from '../http/stream.js';
import { ChatWriter, GenerateWriter } from './answer.js';
import { readChat, readGenerate, type OllamaBody } from './chat-request.js';
import { embed } from './embed.js';
import { errorBody } from './error-body.js';
import { modelRoutes } from './models.js';
import { named } from './names.js';
import { operations as about } from './operations.js';
import { orResidence } from './residence.js';
import { shelfRoutes } from './shelf-routes.js';

const chat: ChatDialect<OllamaBody> = {
  operation: 'chat',
  framing: ndjson,
  read: readChat,
  writer: (asked, model) => new ChatWriter(asked, model),
};

const generate: ChatDialect<OllamaBody> = {
  operation: 'text_completion',
  framing: ndjson,
  read: readGenerate,
  writer: (asked, model) => new GenerateWriter(asked, model),
};

export const ollama: Dialect = {
  before: [],
  under: ['/api'],
  errorShape: errorBody,
  // Ollama's own examples use `curl -d` without a header.
  takesAnyType: true,
  routes: (gateway) => {
    const models = modelRoutes(gateway);
    const shelf = shelfRoutes(gateway);
    return [
      { method: 'post', paths: ['/api/chat'], about: about.chat, handler: named(gateway, orResidence(gateway, 'messages', chatRoute(gateway, chat))) },
      { method: 'post', paths: ['/api/generate'], about: about.generate, handler: named(gateway, orResidence(gateway, 'prompt', chatRoute(gateway, generate))) },
      { method: 'post', paths: ['/api/embed', '/api/embeddings'], about: about.embed, handler: named(gateway, embed(gateway)) },
      { method: 'post', paths: ['/api/show'], about: about.show, handler: named(gateway, models.show) },
      { method: 'post', paths: ['/api/pull'], about: about.pull, handler: shelf.pull },
      { method: 'post', paths: ['/api/copy'], about: about.copy, handler: shelf.copy },
      { method: 'delete', paths: ['/api/delete'], about: about.remove, takesBody: true, handler: shelf.remove },
      { method: 'get', paths: ['/api/tags'], about: about.tags, handler: models.tags },
      { method: 'get', paths: ['/api/ps'], about: about.ps, handler: models.ps },
      { method: 'get', paths: ['/api/version'], about: about.version, handler: models.version },
      // Clients check here first whether a server is up.
      { method: 'get', paths: ['/'], about: about.greeting, handler: (_req, res) => void res.type('text').send('Recua is running. GET /v1/models lists its models.\n') },
    ];
  },
};
