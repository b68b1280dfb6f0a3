// OpenAI's Responses: maps paths to routes. Mounted by app.
import type { Request, Response } from 'express';
import { RecuaError } from '../../errors.js';
import { renderRoute } from '../exchange/ask-exchange.js';
import { chatRoute } from '../exchange/chat-exchange.js';
import type { ChatDialect, Dialect, Route } from '../exchange/dialect.js';
import type { Gateway } from '../http/gateway.js';
import { reasonOf } from '../http/inner.js';
import { sse } from '../http/stream.js';
import { asksForWebSocket } from '../http/upgrades.js';
import type { Owner } from '../kept/owner.js';
import { keepTidy } from '../kept/tidying.js';
import { ResponseWriter, type ResponseAsked } from './answer.js';
import { BackgroundRun, BackgroundRuns } from './background.js';
import { Conversation, conversations } from './conversation.js';
import { prepare, readEarlier, startRun } from './create.js';
import type { Earlier } from './items.js';
import { operations as about } from './operations.js';
import { readResponseRequest } from './response-request.js';
import { cancelStored, inputItems, removeStored, showStored } from './stored-routes.js';
import { ResponseStore, type StoredResponse } from './store.js';

const dayMs = 86_400_000;

export const responses: Dialect = {
  before: [],
  routes: (gateway) => routesOver(gateway, new ResponseStore(gateway.kept, { ageMs: gateway.config.responseDays * dayMs })),
  sockets: (gateway) => [{ paths: paths(''), open: conversations(gateway) }],
};

const paths = (rest: string): string[] => [`/v1/responses${rest}`, `/responses${rest}`];

function routesOver(gateway: Gateway, store: ResponseStore): readonly Route[] {
  const runs = new BackgroundRuns(gateway, store);
  const keeps = gateway.config.responseDays > 0;
  // One that keeps none leaves alone what other servers keep.
  if (keeps) keepTidy(gateway, 'responses', () => store.tidy());
  const put = async (stored: StoredResponse, run?: BackgroundRun): Promise<void> =>
    await (run ? runs.save(run, stored) : store.put(stored)).catch((thrown: unknown) => {
      if (RecuaError.from(thrown).code !== 'response_not_found')
        gateway.log('warn', `${stored.response.id} is not stored: ${RecuaError.logText(thrown)}`);
      throw thrown;
    });
  const answering = (
    { name: by }: Owner,
    earlier: Earlier,
    run?: BackgroundRun,
    conversation?: Conversation,
  ): ChatDialect<ResponseAsked> => ({
    operation: 'chat',
    framing: sse,
    keepsBody: true,
    read(body, context) {
      const { request, ...asked } = readResponseRequest(body, context, earlier, keeps);
      return { ...asked, prompts: [[request]] };
    },
    writer: (asked, model) =>
      new ResponseWriter(
        asked,
        model,
        (stored) => put({ ...stored, by }, run),
        run,
        conversation && ((stored) => conversation.remember(earlier.before, stored)),
      ),
  });
  const places = { gateway, store, runs };
  return [
    {
      method: 'post', paths: paths(''), about: about.create,
      async handler(req, res, next) {
        const reason = reasonOf(req);
        const run = reason instanceof BackgroundRun ? reason : undefined;
        run?.begin();
        const conversation = reason instanceof Conversation ? reason : undefined;
        const asked = conversation?.asks(req.body);
        if (asked === 'nothing') return void res.status(204).end();
        const owner = gateway.ownerOf(res);
        const earlier = await readEarlier(places, req, res, conversation);
        if (conversation && asked === 'preparation') return await prepare(places, req, res, earlier, conversation);
        if (!run && await startRun(places, req, res, earlier)) return;
        await chatRoute(gateway, answering(owner, earlier, run, conversation))(req, res, next);
      },
      also: { method: 'get', about: about.socket, handler: noSocket },
    },
    {
      method: 'post', paths: paths('/input_tokens'), about: about.count,
      async handler(req, res, next) {
        const earlier = await readEarlier(places, req, res);
        const count = renderRoute(gateway, (body, context) => readResponseRequest(body, context, earlier, keeps), ({ tokenCount }) => (
          { object: 'response.input_tokens', input_tokens: tokenCount }
        ));
        await count(req, res, next);
      },
    },
    { method: 'get', paths: paths('/:id/input_items'), about: about.items, handler: inputItems(places) },
    { method: 'post', paths: paths('/:id/cancel'), about: about.cancel, bodiless: true, endsWork: true, handler: cancelStored(places) },
    { method: 'get', paths: paths('/:id'), about: about.show, handler: showStored(places), also: { method: 'delete', about: about.remove, handler: removeStored(places) } },
  ];
}

/**
 * A 426 makes Codex switch to plain requests; after any other reply, it would retry for a while.
 */
function noSocket(req: Request, res: Response): void {
  res.set('Upgrade', 'websocket');
  throw new RecuaError('upgrade_required', asksForWebSocket(req)
    ? 'No WebSocket can be opened here now; use POST.'
    : `Expected POST for ${req.path}, or a WebSocket, got a plain GET.`);
}
