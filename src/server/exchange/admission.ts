// The only place where a request is admitted and gets its model: from the parsed body to the lease,
// which is released however the answer ends. Called by app for each route that a model answers.
import type { Request, RequestHandler, Response } from 'express';
import type { Lease } from '../../engine/pool-api.js';
import { RecuaError } from '../../errors.js';
import { answerSettings } from '../../settings/answer.js';
import type { ChatContext } from './dialect.js';
import { Fields, int32Max, wrongValue } from '../../request/fields.js';
import { idlePriority, peekPriority } from '../../request/priority.js';
import { checkUnknown, readNear } from '../../request/unknown-fields.js';
import { takeBody, turnForBody } from '../body/json-body.js';
import type { Gateway } from '../http/gateway.js';
import { factsOf } from '../http/facts.js';
import { IdleWork, reasonOf } from '../http/inner.js';
import { failureOf } from '../http/traffic.js';

/**
 * One request in progress. None of its methods may keep the body, since the engine decides when its
 * text is freed.
 */
export interface Exchange {
  /**
   * Throws for errors that do not depend on the model. Called if the model must be loaded first, so
   * that it is not loaded for an invalid request.
   */
  check(body: Fields): void;
  /**
   * The model of that id is being loaded, which may take long. Throws for errors that depend on the
   * model's settings.
   */
  wait?(body: Fields, id: string): void;
  /** Hands the request to the engine. `warnings`: additional ones for the answer. */
  begin(body: Fields, lease: Lease, signal: AbortSignal, warnings: readonly string[]): void;
  /** Answers; resolves when the engine is no longer needed. */
  answer(): Promise<void>;
  /** Reports the failure of the exchange; false leaves the error to the app. */
  fail?(error: RecuaError): boolean;
}

/** Header of load balancers: send no byte of a stream before its first piece. */
export const openHeader = 'x-stream-opens';

/** Bounds beyond any model, for checks before the model is known. */
export const anyModel = { vocabSize: int32Max, contextSize: int32Max, embeddingSize: int32Max } as const;

/** For reading a body without a model. */
export const anyContext: ChatContext = {
  defaults: { temperature: answerSettings.temperature.fallback, maxTokens: answerSettings.maxTokens.fallback },
  model: anyModel,
};

export function inference(gateway: Gateway, open: (res: Response) => Exchange): RequestHandler {
  return async (req: Request, res: Response) => {
    const signal = gateway.traffic.enter(res);
    const exchange = open(res);
    let lease: Lease | undefined;
    try {
      lease = await admit(gateway, req, res, exchange, signal);
      await exchange.answer();
    } catch (thrown) {
      const error = failureOf(thrown, signal);
      if (!exchange.fail?.(error)) throw error;
    } finally {
      lease?.release();
    }
  };
}

/** The priority of a request that asks for `asked`: its key and its purpose may lower it. */
export function priorityOf({ mostPriority }: Pick<Gateway, 'mostPriority'>, res: Response, asked: number): number {
  return reasonOf(res.req) instanceof IdleWork ? idlePriority : Math.min(asked, mostPriority(res));
}

/** Holds the only reference to the body, so that it is freed while the answer is generated. */
async function admit(
  { clientOf, mostPriority, poolFor, staysAnyway, traffic }: Gateway,
  req: Request,
  res: Response,
  exchange: Exchange,
  signal: AbortSignal,
): Promise<Lease> {
  const body = Fields.of(takeBody(req));
  const { name, keepAliveMs: askedAliveMs } = readAdmission(body);
  const { keepAliveMs, warnings } = residence(askedAliveMs, staysAnyway(res));
  const pool = poolFor(res);
  const facts = factsOf(res);
  facts.modelAsked = name;
  const askedMs = performance.now();
  let waits = false;
  const onWait = (): void => {
    if (waits) return;
    waits = true;
    facts.loadFromMs = askedMs;
    try {
      exchange.check(body);
    } catch (thrown) {
      return traffic.cancel(res, RecuaError.from(thrown));
    }
    // If the model does not exist, the lease reports it.
    pool.find(name).then(
      ({ id }) => {
        if (!waits || signal.aborted) return;
        try {
          exchange.wait?.(body, id);
        } catch (thrown) {
          traffic.cancel(res, RecuaError.from(thrown));
        }
      },
      () => undefined,
    );
  };
  const lease = await pool
    .lease(name, {
      client: clientOf(res),
      priority: priorityOf({ mostPriority }, res, peekPriority(body)),
      signal,
      onWait,
      mayMove: true,
      hasReplicas: req.headers[openHeader] !== undefined,
      ...(keepAliveMs === undefined ? {} : { keepAliveMs }),
    })
    // Also after a failure: a stream that opened later would answer twice.
    .finally(() => {
      waits = false;
    });
  Object.assign(facts, { model: lease.id, loadMs: performance.now() - askedMs });
  try {
    await turnForBody(res);
    signal.throwIfAborted();
    exchange.begin(body, lease, signal, warnings);
    traffic.count();
  } catch (thrown) {
    lease.release();
    throw thrown;
  }
  return lease;
}

/**
 * Reads the body of a request that no model answers. `told`: warnings about unknown fields, for the
 * reply.
 * @throws RecuaError the errors of `read`; `unknown_parameter`
 */
export function readAll<Asked>(req: Request, read: (body: Fields) => Asked): { asked: Asked; told: { warnings?: string[] } } {
  const body = Fields.of(takeBody(req));
  const asked = readNear(body, () => read(body));
  const warnings = checkUnknown(body);
  return { asked, told: warnings.length === 0 ? {} : { warnings } };
}

/** The effect of a `keep_alive`, or a warning if it has none. */
export function residence(keepAliveMs: number | undefined, staysAnyway: string | undefined): { keepAliveMs?: number; warnings: string[] } {
  if (keepAliveMs === undefined) return { warnings: [] };
  return staysAnyway === undefined ? { keepAliveMs, warnings: [] } : { warnings: [staysAnyway] };
}

/** Reads the fields that every request to a model has. */
export function readAdmission(body: Fields): { name: string | undefined; keepAliveMs: number | undefined } {
  return { name: readModelName(body), keepAliveMs: readKeepAlive(body) };
}

/** Characters. Looking for a longer name would take long. */
export const maxModelName = 4_096;

/** The name of a model; undefined means the default model. */
export function readModelName(body: Fields, field = 'model'): string | undefined {
  const name = body.string(field);
  if (name !== undefined && name.length > maxModelName) throw wrongValue(field, `the name of a model, of at most ${maxModelName} characters`, name);
  return name;
}

/** 100 years. A longer time counts as forever, since no date may say when it ends. */
const longestMs = 100 * 365 * 86_400_000;

const unitsMs: Readonly<Record<string, number>> = { ns: 1e-6, us: 1e-3, µs: 1e-3, ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/**
 * How long the model stays loaded after this request: seconds, or a duration in Ollama's format
 * ("10m", "1h30m"); negative means forever.
 */
export function readKeepAlive(body: Fields): number | undefined {
  const value = body.get('keep_alive');
  if (value === undefined) return undefined;
  const ms = typeof value === 'number' ? value * 1_000 : typeof value === 'string' ? durationMs(value.trim()) : NaN;
  if (!Number.isFinite(ms)) throw wrongValue('keep_alive', 'seconds, or a string such as "10m" or "1h30m", or -1 for forever', value);
  return ms < 0 || ms > longestMs ? Infinity : ms;
}

/** NaN if the text is not a duration. */
function durationMs(text: string): number {
  const [, sign, rest = ''] = /^([+-]?)(.{1,40})$/.exec(text) ?? [];
  const parts = /^\d{1,9}$/.test(rest) ? [[rest, rest, 's']] : [...rest.matchAll(/(\d{1,9}(?:\.\d{1,9})?)(ns|us|µs|ms|s|m|h)/gy)];
  if (parts.length === 0 || parts.reduce((length, [all]) => length + (all?.length ?? 0), 0) !== rest.length) return NaN;
  const ms = parts.reduce((sum, [, number, unit]) => sum + Number(number) * unitsMs[unit!]!, 0);
  return sign === '-' ? -ms : ms;
}
