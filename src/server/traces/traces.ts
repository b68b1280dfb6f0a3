// A span for each request, with child spans for its phases: load, queue, prefill, decode. They go
// to the OpenTelemetry SDK of this process. Without an SDK, the API returns a span that records
// nothing, and there is no other work. Express middleware, mounted first by app.
import { context, propagation, SpanKind, SpanStatusCode, trace, type Context, type Span } from '@opentelemetry/api';
import type { RequestHandler, Response } from 'express';
import { errorTable } from '../../errors.js';
import { ownInstallation } from '../../system/installation.js';
import { factsOf, type Facts } from '../http/facts.js';
import { isRoutine } from '../http/request-log.js';
import { attributesOfFacts, attributesOfRequest, errorType } from './attributes.js';
import { contextKey } from './trace-headers.js';
import { notesOf } from '../notes/notes.js';

/** Paths of the page's own files and requests. */
const ofPage = /^\/($|ui\/|web\/)/;

export class Traces {
  readonly #tracer = trace.getTracer('recua', ownInstallation().version);
  readonly #askedBy: (res: Response) => string | undefined;

  /** `askedBy`: name of a request's API key. */
  constructor(askedBy: (res: Response) => string | undefined) {
    this.#askedBy = askedBy;
  }

  readonly watch: RequestHandler = (req, res, next) => {
    if (isRoutine(req) || (req.method === 'GET' && ofPage.test(req.path))) return next();
    const around = context.active();
    // If the program already has a span for this request, ours becomes its child.
    const isWithin = trace.getSpan(around) !== undefined;
    const parent = isWithin ? around : propagation.extract(around, req.headers);
    const fromMs = performance.now();
    const zeroMs = Date.now() - fromMs;
    const span = this.#tracer.startSpan(
      req.method,
      { kind: isWithin ? SpanKind.INTERNAL : SpanKind.SERVER, startTime: zeroMs + fromMs, attributes: attributesOfRequest(req) },
      parent,
    );
    const own = trace.setSpan(parent, span);
    if (trace.isSpanContextValid(span.spanContext())) notesOf(res)[contextKey] = own;
    if (span.isRecording()) res.once('close', () => this.#end(span, own, res, zeroMs));
    next();
  };

  #end(span: Span, own: Context, res: Response, zeroMs: number): void {
    const facts = factsOf(res);
    const endMs = performance.now();
    const isCutOff = !res.writableFinished;
    const error = errorType(facts, isCutOff, res.statusCode);
    facts.traceId = span.spanContext().traceId;
    span.updateName(nameOf(facts, res.req.method));
    span.setAttributes({
      ...attributesOfFacts(facts),
      'http.response.status_code': isCutOff && !res.headersSent ? undefined : res.statusCode,
      'error.type': error,
      'recua.request_id': String(res.getHeader('x-request-id')),
      'recua.key.name': this.#askedBy(res),
    });
    if (error !== undefined && isOfServer(facts, isCutOff ? 0 : res.statusCode))
      span.setStatus({ code: SpanStatusCode.ERROR, message: error });
    for (const { name, fromMs, toMs, answer } of partsOf(facts, endMs)) {
      const attributes = answer === undefined ? {} : { 'recua.answer': answer };
      this.#tracer.startSpan(name, { startTime: zeroMs + fromMs, attributes }, own).end(zeroMs + toMs);
    }
    span.end(zeroMs + endMs);
  }
}

/**
 * Mistakes and disconnects of clients are not errors of the server. A stream may fail after a 200.
 */
function isOfServer({ code }: Facts, status: number): boolean {
  return (code === undefined ? status : errorTable[code].status) >= 500;
}

/** Built only from the server's own words, so that clients cannot create new names. */
function nameOf({ operation, model, route }: Facts, method: string): string {
  if (operation !== undefined) return model === undefined ? operation : `${operation} ${model}`;
  return route === undefined ? method : `${method} ${route}`;
}

interface Part {
  name: 'load' | 'queue' | 'prefill' | 'decode';
  /** By performance.now(). */
  fromMs: number;
  toMs: number;
  /** Its number, if there are several. */
  answer?: number;
}

/**
 * The engine measures the phases of answers, and they are known when all answers have ended. They
 * are placed one after the other, starting when the engine was asked.
 */
function partsOf({ loadFromMs, loadMs, begunMs = [], finishes = [] }: Facts, endMs: number): Part[] {
  const load: Part[] = loadFromMs === undefined ? [] : [{ name: 'load', fromMs: loadFromMs, toMs: loadMs === undefined ? endMs : loadFromMs + loadMs }];
  const ofAnswers = finishes.flatMap(({ timings: { queueMs, promptMs, generateMs } }, answer) => {
    const ends = [begunMs[answer] ?? endMs];
    for (const ms of [queueMs, promptMs, generateMs]) ends.push(Math.min(ends.at(-1)! + ms, endMs));
    return (['queue', 'prefill', 'decode'] as const).map((name, at): Part => ({ name, fromMs: ends[at]!, toMs: ends[at + 1]!, ...(finishes.length > 1 ? { answer } : {}) }));
  });
  return [...load, ...ofAnswers];
}
