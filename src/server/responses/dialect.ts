// OpenAI's Responses: which path is answered by which route. Mounted by app.
import { renderRoute } from '../exchange/ask-exchange.js';
import { chatRoute } from '../exchange/chat-exchange.js';
import type { ChatDialect, Dialect, Route } from '../exchange/dialect.js';
import type { Gateway } from '../http/gateway.js';
import { reasonOf } from '../http/inner.js';
import { sse } from '../http/stream.js';
import { ResponseWriter, type ResponseAsked } from './answer.js';
import { BackgroundRun, BackgroundRuns } from './background.js';
import { readEarlier, startRun } from './create.js';
import type { Earlier } from './items.js';
import { readResponseRequest } from './response-request.js';
import { cancelStored, inputItems, removeStored, showStored } from './stored-routes.js';
import { ResponseStore } from './store.js';

const dayMs = 86_400_000;

export const responses: Dialect = {
  before: [],
  routes: (gateway) => routesOver(gateway, new ResponseStore(gateway.kept, { ageMs: gateway.config.responseDays * dayMs })),
};

function routesOver(gateway: Gateway, store: ResponseStore): readonly Route[] {
  const runs = new BackgroundRuns(gateway, store);
  const keeps = gateway.config.responseDays > 0;
  const answering = (earlier: Earlier, run?: BackgroundRun): ChatDialect<ResponseAsked> => ({
    framing: sse,
    keepsBody: true,
    read(body, context) {
      const { request, ...asked } = readResponseRequest(body, context, earlier, keeps);
      return { ...asked, prompts: [[request]] };
    },
    writer: (asked, model) => new ResponseWriter(asked, model, (stored) => store.put(stored), run),
  });
  const paths = (rest: string): string[] => [`/v1/responses${rest}`, `/responses${rest}`];
  const places = { gateway, store, runs };
  return [
    {
      method: 'post', paths: paths(''),
      async handler(req, res, next) {
        const earlier = await readEarlier(req, res, store);
        const reason = reasonOf(req);
        const run = reason instanceof BackgroundRun ? reason : undefined;
        if (!run && await startRun(places, req, res, earlier)) return;
        await chatRoute(gateway, answering(earlier, run))(req, res, next);
      },
    },
    {
      method: 'post', paths: paths('/input_tokens'),
      async handler(req, res, next) {
        const earlier = await readEarlier(req, res, store);
        const count = renderRoute(gateway, (body, context) => readResponseRequest(body, context, earlier, keeps), ({ tokenCount }) => (
          { object: 'response.input_tokens', input_tokens: tokenCount }
        ));
        await count(req, res, next);
      },
    },
    { method: 'get', paths: paths('/:id/input_items'), handler: inputItems(places) },
    { method: 'post', paths: paths('/:id/cancel'), bodiless: true, handler: cancelStored(places) },
    { method: 'get', paths: paths('/:id'), handler: showStored(places), also: { method: 'delete', handler: removeStored(places) } },
  ];
}
