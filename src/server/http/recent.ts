// Numbers of the most recent requests that did work: when, how long, how many tokens. Contains no
// text of requests. Filled by request-log, shown by the page. Gateway process.

/** Enough for a table on the page. */
const most = 200;

export interface RecentRequest {
  id: string;
  method: string;
  path: string;
  model?: string;
  /** Name of the API key. */
  key?: string;
  /** Milliseconds since 1970. */
  startedMs: number;
  durationMs: number;
  /** Absent if the client left before the answer was complete. */
  status?: number;
  promptTokens?: number;
  completionTokens?: number;
  /** A code of errors.ts. */
  error?: string;
}

export class RecentRequests {
  #all: RecentRequest[] = [];

  /** The newest first. */
  get all(): readonly RecentRequest[] {
    return this.#all.slice(-most).reverse();
  }

  add(request: RecentRequest): void {
    this.#all.push(request);
    if (this.#all.length >= 2 * most) this.#all = this.#all.slice(-most);
  }
}
