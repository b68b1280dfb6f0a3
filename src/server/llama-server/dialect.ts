// llama-server's own routes: completions, properties of the model, text and tokens. Mounted by app.
import { askerOf, askRoute, renderRoute } from '../exchange/ask-exchange.js';
import { chatRoute } from '../exchange/chat-exchange.js';
import type { ChatDialect, Dialect } from '../exchange/dialect.js';
import { LongList } from '../http/long-json.js';
import { sse } from '../http/stream.js';
import { readChatRequest } from '../openai/chat-request.js';
import { NativeWriter } from './completion-answer.js';
import { operations as about } from './operations.js';
import { readInfillRequest, readNativeRequest, type NativeBody } from './completion-request.js';
import { props, refuseRoute, slots } from './props.js';
import { slotFiles } from './slot-files.js';
import { checkListed, piecesOf, readDetokenize, readTokenize } from './tokens.js';

/** `keepsBody`, since the answer echoes the prompt. */
const complete: ChatDialect<NativeBody> = {
  operation: 'text_completion',
  framing: sse,
  keepsBody: true,
  read: readNativeRequest,
  writer: (asked, model) => new NativeWriter(asked, model),
};

const noProps = 'The properties of a running server cannot be changed; put the settings in your requests.';

export const llamaServer: Dialect = {
  before: [],
  routes: (gateway) => [
    { method: 'post', paths: ['/completion'], about: about.complete, handler: chatRoute(gateway, complete) },
    { method: 'post', paths: ['/infill'], about: about.infill, handler: chatRoute(gateway, { ...complete, read: readInfillRequest }) },
    {
      method: 'get',
      paths: ['/props'],
      about: about.props,
      handler: props(gateway),
      also: { method: 'post', about: about.setProps, bodiless: true, handler: refuseRoute(noProps) },
    },
    { method: 'get', paths: ['/slots'], about: about.slots, handler: slots(gateway) },
    { method: 'post', paths: ['/slots/:id'], about: about.slot, isForAdmin: true, mayLackBody: true, handler: slotFiles(gateway) },
    {
      method: 'post',
      paths: ['/tokenize'],
      about: about.tokenize,
      handler: askRoute(gateway, readTokenize, async ({ text, addSpecial, parseSpecial, withPieces }, { engine }, signal, _lend, res) => {
        const tokens = await engine.tokenize(text, addSpecial, parseSpecial, signal, askerOf(gateway, res));
        if (!withPieces) return { tokens: new LongList(() => tokens) };
        checkListed(tokens);
        const distinct = Int32Array.from(new Set(tokens));
        return { tokens: piecesOf(tokens, distinct, await engine.pieces(distinct)) };
      }),
    },
    {
      method: 'post',
      paths: ['/detokenize'],
      about: about.detokenize,
      handler: askRoute(gateway, readDetokenize, async (tokens, { engine }, signal, _lend, res) => ({
        content: await engine.detokenize(tokens, true, signal, askerOf(gateway, res)),
      })),
    },
    {
      method: 'post',
      paths: ['/apply-template'],
      about: about.template,
      handler: renderRoute(gateway, readChatRequest, ({ prompt }) => ({ prompt })),
    },
    {
      method: 'post',
      paths: ['/v1/chat/completions/input_tokens', '/chat/completions/input_tokens'],
      about: about.count,
      handler: renderRoute(gateway, readChatRequest, ({ tokenCount }) => ({ object: 'response.input_tokens', input_tokens: tokenCount })),
    },
  ],
};
