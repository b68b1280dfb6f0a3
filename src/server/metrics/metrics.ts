// GET /metrics: counters of the server and the state of its models, for Prometheus. Requests are
// counted when they are over. Only the times between pieces of an answer are measured while it
// runs, each with one look at the clock. Made by app: `watch` is mounted before all routes.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Registry } from 'prom-client';
import type { Request, RequestHandler, Response } from 'express';
import type { PoolModel } from '../../engine/pool-api.js';
import { ownInstallation } from '../../system/installation.js';
import { factsOf, type Facts } from '../http/facts.js';
import type { Gateway } from '../http/gateway.js';
import { addAliases } from './aliases.js';
import { makeInstruments, type Instruments } from './instruments.js';
import { KeyCounter } from './key-counter.js';

/** nginx's status for requests whose client left. */
const clientLeft = 499;
/** Statuses of requests that were rejected before any work. */
const turnedAway: ReadonlySet<number> = new Set([401, 403, 429, 503]);

export interface MetricsSources extends Pick<Gateway, 'pool' | 'traffic'> {
  /** Memory of request bodies, in bytes. */
  bodyBytes(): number;
  /** Name of a request's API key. */
  askedBy(res: Response): string | undefined;
}

export class Metrics {
  readonly #registry = new Registry();
  readonly #all: Instruments = makeInstruments(this.#registry);
  readonly #sources: MetricsSources;

  constructor(sources: MetricsSources) {
    this.#sources = sources;
    addAliases(this.#registry, this.#all);
    this.#all.build.set({ version: ownInstallation().version }, 1);
    this.#all.processStart.set(Math.round(Date.now() / 1_000 - process.uptime()));
  }

  readonly watch: RequestHandler = (_req, res, next) => {
    const facts = factsOf(res);
    facts.meter = {
      first: () => {
        if (facts.firstMs !== undefined) return;
        facts.firstMs = performance.now() - facts.startMs;
        this.#all.firstToken.observe(routeOf(facts), facts.firstMs / 1_000);
      },
      gap: (ms) => this.#all.gap.observe(routeOf(facts), ms / 1_000),
    };
    res.once('close', () => this.#count(facts, res));
    next();
  };

  readonly route: RequestHandler = async (_req: Request, res: Response) => {
    this.#look(await this.#sources.pool.list());
    const text = await this.#text();
    res.set({ 'Content-Type': this.#registry.contentType, 'Cache-Control': 'no-store' }).send(text);
  };

  /** Removes the series of API keys that are gone. */
  forgetKeys(isGone: (name: string) => boolean): void {
    for (const metric of Object.values(this.#all)) {
      if (metric instanceof KeyCounter) void metric.forget((key) => key !== '' && isGone(key));
    }
  }

  /** With thousands of keys one metric has thousands of lines: others get a turn after each. */
  async #text(): Promise<string> {
    const texts: string[] = [];
    for (const { name } of this.#registry.getMetricsAsArray()) {
      texts.push(await this.#registry.getSingleMetricAsString(name));
      await nextTurn();
    }
    return `${texts.join('\n\n')}\n`;
  }

  /** A request is over. */
  #count(facts: Facts, res: Response): void {
    const all = this.#all;
    const { model = '', code } = facts;
    const where = routeOf(facts);
    const { route } = where;
    const whose = { ...where, key: this.#sources.askedBy(res) ?? '' };
    const isCutOff = !res.writableFinished;
    const status = isCutOff ? clientLeft : res.statusCode;
    all.requests.inc({ ...whose, status });
    if (isCutOff) all.cancellations.inc({ ...whose, phase: facts.firstMs === undefined ? 'waiting' : 'answering' });
    else if (code !== undefined) all.errors.inc({ model, route, code });
    if (!isCutOff && code !== undefined && turnedAway.has(status)) all.rejections.inc({ route, code });
    if (facts.model === undefined) return;

    all.duration.observe(where, (performance.now() - facts.startMs) / 1_000);
    if (facts.promptTokens !== undefined) all.prompt.inc(whose, facts.promptTokens);
    if (facts.finishes) this.#countAnswers(facts, whose);
    else if (facts.generates) all.answers.inc({ ...whose, finish_reason: isCutOff ? 'cancelled' : 'error' });
  }

  #countAnswers({ finishes = [], model = '', loadMs = 0 }: Facts, whose: { model: string; route: string; key: string }): void {
    const all = this.#all;
    const where = { model: whose.model, route: whose.route };
    for (const { finishReason, usage, timings } of finishes) {
      all.answers.inc({ ...whose, finish_reason: finishReason });
      all.looked.inc({ model }, usage.promptTokens);
      all.cached.inc(whose, usage.cachedTokens);
      all.generated.inc(whose, usage.completionTokens);
      if (usage.draftedTokens !== undefined) all.drafted.inc({ model }, usage.draftedTokens);
      if (usage.acceptedTokens !== undefined) all.accepted.inc({ model }, usage.acceptedTokens);
      all.queue.observe(where, (loadMs + timings.queueMs) / 1_000);
      all.reading.observe(where, timings.promptMs / 1_000);
      all.generating.observe(where, timings.generateMs / 1_000);
      all.promptLength.observe(where, usage.promptTokens);
      all.answerLength.observe(where, usage.completionTokens);
    }
  }

  /** Sets the gauges to the current state. Synchronous, so that no scrape sees it half done. */
  #look(models: readonly PoolModel[]): void {
    const all = this.#all;
    const { traffic, bodyBytes } = this.#sources;
    for (const metric of [
      all.running,
      all.waiting,
      all.kvUsed,
      all.kvKept,
      all.kvSize,
      all.kvUsage,
      all.speed,
      all.memory,
      all.deviceMemory,
      all.models,
    ])
      metric.reset();
    for (const metric of [all.crashes, all.loads, all.reloads, all.processCpu]) metric.reset();
    for (const state of ['unloaded', 'sleeping', 'loading', 'loaded', 'unloading', 'failed'] as const)
      all.models.set({ state }, models.filter((one) => one.state.state === state).length);
    // Models that were never used make no series.
    for (const one of models)
      if (one.loads > 0 || one.leases > 0 || one.state.state === 'loading' || one.state.state === 'failed') this.#lookAt(one);
    all.open.set(traffic.size);
    all.bodies.set(bodyBytes());
    all.draining.set(traffic.draining ? 1 : 0);
    all.processMemory.set(process.memoryUsage.rss());
    const { user, system } = process.cpuUsage();
    all.processCpu.inc((user + system) / 1e6);
  }

  #lookAt({
    id: model,
    activity: { running, waiting, tokensPerSecond, kv },
    state,
    known,
    sizeBytes,
    loads,
    crashes,
    pid,
  }: PoolModel): void {
    const all = this.#all;
    all.running.set({ model }, running);
    all.waiting.set({ model }, waiting);
    all.speed.set({ model }, tokensPerSecond);
    all.loads.inc({ model }, loads);
    all.reloads.inc({ model }, Math.max(0, loads - 1));
    all.crashes.inc({ model }, crashes);
    all.memory.set({ model }, state.state === 'loaded' || pid !== undefined ? sizeBytes : 0);
    all.deviceMemory.set({ model }, state.state === 'loaded' ? (known?.deviceBytes ?? 0) : 0);
    if (!known?.canGenerate) return;
    const size = known.parallel * known.contextSize;
    const { used, kept } = kv ?? { used: 0, kept: 0 };
    all.kvUsed.set({ model }, used);
    all.kvKept.set({ model }, kept);
    all.kvSize.set({ model }, size);
    all.kvUsage.set({ model }, Math.min(1, used / size));
  }
}

/** All paths without a route share one label. */
function routeOf({ model = '', route = 'none' }: Facts): { model: string; route: string } {
  return { model, route };
}
