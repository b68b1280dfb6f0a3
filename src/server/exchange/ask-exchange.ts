// Requests with one JSON object as the reply: the prompt of a chat, tokens of a text, vectors.
import type { RequestHandler, Response } from 'express';
import type { Released } from '../../engine/api.js';
import type { Lease } from '../../engine/pool-api.js';
import type { Asker, ChatRequest, ModelDescription, Rendered } from '../../engine/protocol.js';
import type { Fields } from '../../request/fields.js';
import { checkUnknown, readNear } from '../../request/unknown-fields.js';
import { freeBody, lendBody } from '../body/json-body.js';
import { factsOf, type ModelOperation } from '../http/facts.js';
import type { Gateway } from '../http/gateway.js';
import { anyModel, inference, priorityOf, type Exchange } from './admission.js';
import type { ChatContext } from './dialect.js';
import { sendJson } from './send-json.js';

/**
 * Hands the memory of the question to the engine, which calls the result once the text is freed.
 */
export type Lend = () => Released;

type AskContext = ChatContext & { model: Pick<ModelDescription, 'embeddingSize'> };

/**
 * `read` checks the body; `ask` gets its result and makes the body of the reply. It must call the
 * engine in the same turn. If it does not call `lend`, the memory of the body counts until it has
 * answered.
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
        readNear(body, () => read(body, { defaults: gateway.defaultsOf(''), model: anyModel }));
        checkUnknown(body);
      },
      begin(body, lease, signal, told) {
        const question = readNear(body, () => read(body, { defaults: gateway.defaultsOf(lease.id), model: lease.model }));
        warnings = [...told, ...checkUnknown(body)];
        asking = ask(question, lease, signal, () => lendBody(res), res);
        // `answer` throws the same error.
        asking.catch(() => undefined);
      },
      async answer() {
        const answer = await asking!;
        // However slowly the client reads: memory for bodies keeps others out while it is full.
        freeBody(res);
        const more = warnings.length === 0 ? {} : { warnings };
        // An array has no place for warnings.
        await sendJson(res, Array.isArray(answer) ? answer : { ...answer, ...more });
      },
    };
  });
}

/** For fair turns among clients. */
export function askerOf(gateway: Gateway, res: Response): Asker {
  return { client: gateway.clientOf(res), priority: priorityOf(gateway, res, 0) };
}

/** Renders the prompt of a chat, which `read` reads as for the chat itself. */
export function renderRoute(
  gateway: Gateway, read: (body: Fields, context: ChatContext) => { request: ChatRequest }, write: (rendered: Rendered) => object,
): RequestHandler {
  return askRoute(gateway, read, async ({ request }, { engine }, signal, lend, res) => {
    return write(await engine.render({ ...request, asker: askerOf(gateway, res) }, signal, lend()));
  });
}
