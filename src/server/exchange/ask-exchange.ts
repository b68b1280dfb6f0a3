// A question with one JSON object as its answer: the prompt of a chat, tokens of a text, vectors.
import type { RequestHandler, Response } from 'express';
import type { Released } from '../../engine/api.js';
import type { Lease } from '../../engine/pool-api.js';
import type { ChatRequest, ModelDescription, Rendered } from '../../engine/protocol.js';
import type { Fields } from '../../request/fields.js';
import { checkUnknown } from '../../request/unknown-fields.js';
import { lendBody } from '../body/json-body.js';
import { factsOf, type ModelOperation } from '../http/facts.js';
import type { Gateway } from '../http/gateway.js';
import { anyModel, inference, type Exchange } from './admission.js';
import type { ChatContext } from './dialect.js';

/**
 * Says that the engine takes the question over: it calls the result once that is gone from here.
 */
export type Lend = () => Released;

type AskContext = ChatContext & { model: Pick<ModelDescription, 'embeddingSize'> };

/**
 * `read` checks the body; `ask` gets what it returned and makes the reply's body. The engine is to
 * be asked in the same turn. Without `lend` the body counts until the reply is sent.
 */
export function askRoute<Question>(
  gateway: Gateway, read: (body: Fields, context: AskContext) => Question,
  ask: (question: Question, lease: Lease, signal: AbortSignal, lend: Lend, res: Response) => Promise<object>,
  operation?: ModelOperation,
): RequestHandler {
  return inference(gateway, (res): Exchange => {
    if (operation) factsOf(res).operation = operation;
    let asking: Promise<object> | undefined;
    let warnings: readonly string[] = [];
    return {
      check(body) {
        read(body, { defaults: gateway.defaultsOf(''), model: anyModel });
        checkUnknown(body);
      },
      begin(body, lease, signal, told) {
        const question = read(body, { defaults: gateway.defaultsOf(lease.id), model: lease.model });
        warnings = [...told, ...checkUnknown(body)];
        asking = ask(question, lease, signal, () => lendBody(res), res);
        // The same error comes from `answer`.
        asking.catch(() => undefined);
      },
      async answer() {
        const answer = await asking!;
        // A list has no place for them.
        res.json(warnings.length === 0 || Array.isArray(answer) ? answer : { ...answer, warnings });
      },
    };
  });
}

/** What the model would read of a chat; `read` as for the chat itself. */
export function renderRoute(
  gateway: Gateway, read: (body: Fields, context: ChatContext) => { request: ChatRequest }, write: (rendered: Rendered) => object,
): RequestHandler {
  return askRoute(gateway, read, async ({ request }, { engine }, signal, lend) => write(await engine.render(request, signal, lend())));
}
