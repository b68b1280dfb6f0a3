// The answers that are being written, in numbers: how much of the prompt is read, how many tokens
// came, how fast. Never a word of them. Kept by exchange/chat-exchange, shown by the page. Gateway
// process.
import type { Finish } from '../../engine/api.js';
import type { Delta } from '../../engine/protocol.js';

export interface RunningAnswer {
  /** Of its request. */
  id: string;
  model: string;
  /** Milliseconds since 1970. */
  startedMs: number;
  /** Absent while the prompt is prepared. */
  promptTokens?: number;
  /** Of the prompt, what is evaluated, cached tokens included. */
  promptRead: number;
  cachedTokens: number;
  /** Absent where nobody looked when the answer began. */
  generated?: number;
  /** 0 before the second token. */
  tokensPerSecond: number;
}

/** Of all answers that were completed since the server began. */
export interface AnswerTotals {
  answers: number;
  /** Sum of the times from the request to its first token. */
  firstTokenMs: number;
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
}

/** One answer, as it is followed. */
export interface Followed {
  accepted(promptTokens: number): void;
  add(delta: Delta): void;
  finished(finish: Finish): void;
  /** However it ended; more calls do nothing. */
  leave(): void;
}

/** Who looks, looks every second. */
const watchedMs = 10_000;

export class RunningAnswers {
  readonly #running = new Set<RunningAnswer>();
  #lookedMs = -Infinity;
  readonly totals: AnswerTotals = { answers: 0, firstTokenMs: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0 };

  /** The oldest first. Whoever looks has those that come from now on tell how far they are. */
  get all(): readonly RunningAnswer[] {
    this.#lookedMs = performance.now();
    return [...this.#running];
  }

  /** Somebody looked just now. */
  get isWatched(): boolean {
    return performance.now() - this.#lookedMs < watchedMs;
  }

  follow(id: string, model: string): Followed {
    const answer: RunningAnswer = { id, model, startedMs: Date.now(), promptRead: 0, cachedTokens: 0, ...(this.isWatched ? { generated: 0 } : {}), tokensPerSecond: 0 };
    this.#running.add(answer);
    return {
      accepted: (promptTokens) => void (answer.promptTokens = promptTokens),
      add: ({ progress, soFar }) => {
        if (progress) Object.assign(answer, { promptTokens: progress.total, promptRead: progress.processed, cachedTokens: progress.cached });
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
