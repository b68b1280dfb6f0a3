// Steps before a response is generated: loads the stored responses that the request refers to, and
// checks, stores and starts background responses. Called by dialect.
import type { Request, Response } from 'express';
import { RecuaError } from '../../errors.js';
import { Fields, isObject } from '../../request/fields.js';
import { checkUnknown } from '../../request/unknown-fields.js';
import { pageHeaders } from '../access/pages.js';
import { holdMore, takeBody } from '../body/json-body.js';
import { anyModel, readKeepAlive, readModelName } from '../exchange/admission.js';
import type { Gateway } from '../http/gateway.js';
import { sse, Stream } from '../http/stream.js';
import { traceHeaders } from '../traces/trace-headers.js';
import type { BackgroundRun, BackgroundRuns } from './background.js';
import type { Conversation } from './conversation.js';
import { nothingEarlier, referencesOf, type Earlier } from './items.js';
import { idOf, newResponseId, responseOf, storedInput } from './output-items.js';
import { readResponseRequest } from './response-request.js';
import type { ResponseStore, WireResponse } from './store.js';

export interface Places {
  gateway: Gateway;
  store: ResponseStore;
  runs: BackgroundRuns;
}

/** Most responses that a request may take single items from. */
const mostReferred = 1_000;

/**
 * Loads the responses and items that the body refers to. They count as if the client had sent them:
 * each item as often as it occurs, together at most what a body may have, and in the memory of the
 * body.
 */
export async function readEarlier({ gateway, store }: Places, req: Request, res: Response, conversation?: Conversation): Promise<Earlier> {
  const body: unknown = req.body;
  if (!isObject(body)) return nothingEarlier;
  const whose = gateway.ownerOf(res);
  const hold = (bytes: number): void => holdMore(res, bytes);
  const reader = { client: gateway.clientOf(res), res, hasBody: true };
  const size = new ReferredSize(gateway.config.bodyLimitBytes);
  const previous = body['previous_response_id'];
  const before = typeof previous === 'string' && previous !== '' ? conversation?.history(previous, hold) ?? await store.history(previous, whose, reader, hold) : [];
  for (const item of before) size.add(item, 'previous_response_id');
  const references = referencesOf(body['input']);
  if (references.length === 0) return { ...nothingEarlier, before };
  const owners = [...new Set(references.map(responseOf))].slice(0, mostReferred);
  const items = new Map<string, object>();
  for (const owner of owners) {
    // The reader reports missing items, with their place in the input.
    const stored =
      owner === undefined ? undefined : await store.inTurn(reader, () => store.get(owner, whose, undefined, hold)).catch(unlessMissing);
    for (const item of [...stored?.input ?? [], ...stored?.response.output ?? []]) items.set(String(idOf(item)), item);
  }
  let itemBytes = 0;
  const seen = new Set<object>();
  for (const id of references) {
    const item = items.get(id);
    if (!item) continue;
    const bytes = size.add(item, 'input');
    // The store has held the first one.
    if (seen.has(item)) hold(bytes);
    seen.add(item);
    itemBytes += bytes;
  }
  return { before, items, itemBytes };
}

/** The size of what a request refers to, as JSON. */
class ReferredSize {
  readonly #mostBytes: number;
  #bytes = 0;

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes;
  }

  /** The bytes of one more item. Throws `body_too_large` when all have too many. */
  add(item: object, param: string): number {
    const bytes = Buffer.byteLength(JSON.stringify(item));
    this.#bytes += bytes;
    if (this.#bytes > this.#mostBytes) {
      throw new RecuaError('body_too_large', `The items that this request refers to have more than ${this.#mostBytes} bytes together, which is the most for a request body (--body-limit). An item counts as often as it is referred to.`, { param });
    }
    return bytes;
  }
}

function unlessMissing(thrown: unknown): undefined {
  if (RecuaError.from(thrown).code !== 'response_not_found') throw thrown;
}

/**
 * Starts a background response and replies, if the request asks for one; returns whether it did.
 */
export async function startRun({ gateway, runs }: Places, req: Request, res: Response, earlier: Earlier): Promise<boolean> {
  if (!isObject(req.body) || req.body['background'] === undefined || req.body['background'] === false || req.body['background'] === null) return false;
  const body = takeBody(req) as Record<string, unknown>;
  const fields = Fields.of(body);
  const { id: model } = await gateway.poolFor(res).find(readModelName(fields));
  readKeepAlive(fields);
  const asked = readResponseRequest(
    fields,
    { defaults: gateway.defaultsOf(model), model: anyModel },
    earlier,
    gateway.config.responseDays > 0,
  );
  checkUnknown(fields);
  const id = newResponseId();
  const response: WireResponse = {
    id, object: 'response', created_at: Math.floor(Date.now() / 1_000), completed_at: null, status: 'queued', background: true,
    error: null, incomplete_details: null, model, output: [], usage: null, store: true, ...asked.echo,
  };
  const run = await runs.start(
    { response, input: storedInput(asked.input, id), previous: asked.previous, by: gateway.ownerOf(res).name },
    body,
    gateway.clientOf(res),
    earlier.itemBytes,
    { ...traceHeaders(res), ...pageHeaders(req.headers) },
  );
  // Its client, who may watch it to the end, is no second request.
  void run.begun.then(() => gateway.leaveRunning(res));
  if (asked.stream) await streamRun(gateway, res, run, 0);
  else res.json(response);
  return true;
}

/**
 * Handles a message that wants no answer yet: remembers its input, for the next message to continue
 * from. Codex sends its instructions and tools this way before the first user message.
 */
export async function prepare(
  { gateway }: Places,
  req: Request,
  res: Response,
  earlier: Earlier,
  conversation: Conversation,
): Promise<void> {
  const body = takeBody(req) as Record<string, unknown>;
  const isEmpty = Array.isArray(body['input']) && body['input'].length === 0;
  // Empty input is allowed here; a placeholder lets the reader check the rest.
  const fields = Fields.of(isEmpty ? { ...body, input: '.' } : body);
  const { id: model } = await gateway.poolFor(res).find(readModelName(fields));
  const asked = readResponseRequest(fields, { defaults: gateway.defaultsOf(model), model: anyModel }, earlier, false);
  readKeepAlive(fields);
  const warnings = [...asked.warnings, ...checkUnknown(fields)];
  const id = newResponseId();
  const now = Math.floor(Date.now() / 1_000);
  const response: WireResponse = {
    id,
    object: 'response',
    created_at: now,
    completed_at: now,
    status: 'completed',
    background: false,
    error: null,
    incomplete_details: null,
    model,
    output: [],
    usage: null,
    ...asked.echo,
    store: false,
    ...(warnings.length > 0 ? { warnings } : {}),
  };
  conversation.remember(earlier.before, { response, input: isEmpty ? [] : storedInput(asked.input, id) });
  const stream = new Stream(res, sse);
  stream.open({ afterMs: 0, frame: () => ({ data: '' }) });
  const types = ['response.created', 'response.completed'];
  stream.send(...types.map((type, sequence) => ({ event: type, data: { type, sequence_number: sequence, response } })));
  stream.end();
}

/** Streams events from that number on. The run continues if the client disconnects. */
export async function streamRun({ traffic, config }: Gateway, res: Response, run: BackgroundRun, sequence: number): Promise<void> {
  // The signal of traffic may also abort while the client is there, and then the run tells the end.
  if (traffic.enter(res).aborted) return;
  const left = new AbortController();
  res.once('close', () => left.abort());
  const stream = new Stream(res, sse);
  // OpenAI's keep-alive event for silent streams; it is not part of the response.
  const alive = 'keepalive';
  stream.open({
    afterMs: config.pingIntervalMs,
    frame: () => ({ event: alive, data: { type: alive, sequence_number: run.sequence - 1 } }),
  });
  if (res.writableEnded) return;
  for await (const frame of run.from(sequence, left.signal)) {
    stream.send(frame);
    await stream.writable();
  }
  stream.end();
}
