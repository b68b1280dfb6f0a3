// Numbers of the answers in progress: prefill progress, generated tokens, speed. Contains no text.
// Filled by exchange/chat-exchange, shown by the page. Gateway process.
import type { Finish } from '../../engine/api.js';
import type { Delta } from '../../engine/protocol.js';

export interface RunningAnswer {
  /** Id of its request. */
  id: string;
  model: string;
  /** Name of the API key. */
  key?: string;
  /** Milliseconds since 1970. */
  startedMs: number;
  /** Absent while the prompt is being prepared. */
  promptTokens?: number;
  /** Evaluated tokens of the prompt, including cached ones. */
  promptRead: number;
  cachedTokens: number;
  /** Absent if nobody was watching when the answer began. */
  generated?: number;
  /** 0 before the second token. */
  tokensPerSecond: number;
}

/** Totals of all answers completed since the server started. */
export interface AnswerTotals {
  answers: number;
  /** Sum of the times from each request to its first token. */
  firstTokenMs: number;
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
}

/** Receives the progress of one answer. */
export interface Followed {
  accepted(promptTokens: number): void;
  add(delta: Delta): void;
  finished(finish: Finish): void;
  /** Called however the answer ended. Further calls do nothing. */
  leave(): void;
}

/** The page polls every second, so after this time without a poll nobody is watching. */
const watchedMs = 10_000;

export class RunningAnswers {
  readonly #running = new Set<RunningAnswer>();
  #lookedMs = -Infinity;
  readonly totals: AnswerTotals = { answers: 0, firstTokenMs: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0 };

  /** Oldest first. Reading this makes answers that begin from now on report their progress. */
  get all(): readonly RunningAnswer[] {
    this.#lookedMs = performance.now();
    return [...this.#running];
  }

  /** Whether `all` was read recently. */
  get isWatched(): boolean {
    return performance.now() - this.#lookedMs < watchedMs;
  }

  follow(id: string, model: string, key?: string): Followed {
    const answer: RunningAnswer = {
      id,
      model,
      ...(key === undefined ? {} : { key }),
      startedMs: Date.now(),
      promptRead: 0,
      cachedTokens: 0,
      ...(this.isWatched ? { generated: 0 } : {}),
      tokensPerSecond: 0,
    };
    this.#running.add(answer);
    return {
      accepted: (promptTokens) => void (answer.promptTokens = promptTokens),
      add: ({ progress, soFar }) => {
        if (progress)
          Object.assign(answer, { promptTokens: progress.total, promptRead: progress.processed, cachedTokens: progress.cached });
        if (!soFar) return;
        const { usage: { promptTokens, cachedTokens, completionTokens }, timings: { generateMs } } = soFar;
        Object.assign(answer, { promptTokens, promptRead: promptTokens, cachedTokens, generated: completionTokens });
        if (generateMs > 0) answer.tokensPerSecond = (completionTokens - 1) / generateMs * 1_000;
      },
      finished: ({ usage, timings }) => {
        const { totals } = this;
        totals.answers++;
        totals.firstTokenMs += timings.queueMs + timings.promptMs;
        totals.promptTokens += usage.promptTokens;
        totals.cachedTokens += usage.cachedTokens;
        totals.completionTokens += usage.completionTokens;
      },
      leave: () => void this.#running.delete(answer),
    };
  }
}
