// llama-server's own routes about text and tokens. Mounted by app.
import type { Dialect } from '../exchange/dialect.js';
import { askRoute, renderRoute } from '../exchange/ask-exchange.js';
import { readChatRequest } from '../openai/chat-request.js';
import { piecesOf, readDetokenize, readTokenize } from './tokens.js';

export const llamaServer: Dialect = {
  before: [],
  routes: (gateway) => [
    {
      method: 'post', paths: ['/tokenize'],
      handler: askRoute(gateway, readTokenize, async ({ text, addSpecial, parseSpecial, withPieces }, { engine }) => {
        const tokens = await engine.tokenize(text, addSpecial, parseSpecial);
        return { tokens: withPieces ? piecesOf(tokens, await engine.pieces(tokens)) : Array.from(tokens) };
      }),
    },
    {
      method: 'post', paths: ['/detokenize'],
      handler: askRoute(gateway, readDetokenize, async (tokens, { engine }) => ({ content: await engine.detokenize(tokens, true) })),
    },
    { method: 'post', paths: ['/apply-template'], handler: renderRoute(gateway, readChatRequest, ({ prompt }) => ({ prompt })) },
    {
      method: 'post', paths: ['/v1/chat/completions/input_tokens', '/chat/completions/input_tokens'],
      handler: renderRoute(gateway, readChatRequest, ({ tokenCount }) => ({ object: 'response.input_tokens', input_tokens: tokenCount })),
    },
  ],
};
