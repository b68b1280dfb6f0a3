// The connection to the server during an answer: notices a break and waits until the server is
// back. Whether it is the same server process decides how the answer continues.
import { json, ServerError } from '../app/server.js';

/** Timeout of a probe of the server, and the interval of the checks. */
const probeMs = 5_000;
/** The server pings a stream every ten seconds by default, so no stream is silent this long. */
const silentMs = 30_000;
const firstPauseMs = 300;
const longestPauseMs = 5_000;
/** How long to wait for a server that is gone. */
const waitMs = 180_000;

/** The error of a stream that the page ended because the server no longer responds. */
export const cutOff = () => new ServerError('The connection ended before the answer was complete.', 'cut_off');

/** @param {unknown} thrown */
export const isCut = (thrown) => thrown instanceof ServerError && (thrown.code === 'cut_off' || thrown.code === 'unreachable');

/**
 * An id that changes with each start of the server; undefined if the server refuses to tell it.
 * @param {AbortSignal} [signal]
 * @returns {Promise<string | undefined>}
 * @throws ServerError `unreachable`
 */
export async function serverId(signal) {
  const timeout = AbortSignal.timeout(probeMs);
  try {
    return (await json('ui/server', { quietly: true, signal: signal ? AbortSignal.any([signal, timeout]) : timeout })).id;
  } catch (thrown) {
    if (isCut(thrown) || timeout.aborted || signal?.aborted) throw timeout.aborted ? cutOff() : thrown;
    // A refusal shows that the server is there.
    return undefined;
  }
}

/**
 * Ends a stream whose connection died silently. When the network goes away or nothing has arrived
 * for `silentMs`, it probes the server, and aborts if the probe fails.
 */
export class Watch {
  #heardMs = performance.now();
  #stop = new AbortController();
  #asking = false;
  #timer = setInterval(() => { if (performance.now() - this.#heardMs > silentMs) void this.#probe(); }, probeMs);
  #wentOffline = () => void this.#probe();

  constructor() {
    addEventListener('offline', this.#wentOffline);
  }

  get signal() {
    return this.#stop.signal;
  }

  heard() {
    this.#heardMs = performance.now();
  }

  async #probe() {
    if (this.#asking) return;
    this.#asking = true;
    await serverId().catch(() => this.#stop.abort());
    this.#asking = false;
  }

  close() {
    clearInterval(this.#timer);
    removeEventListener('offline', this.#wentOffline);
  }
}

/**
 * Waits until the server responds and returns its id. Throws after `waitMs`, or when `signal`
 * aborts.
 * @param {AbortSignal} signal
 */
export async function serverIsBack(signal) {
  const startMs = performance.now();
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
    await pause(pauseMs, signal);
    try {
      return await serverId(signal);
    } catch (thrown) {
      if (signal.aborted) throw thrown;
      if (performance.now() - startMs > waitMs) throw new ServerError('The connection broke, and the server did not respond for three minutes.', 'unreachable');
    }
  }
}

/** Ends early when the browser is online again. @param {number} ms @param {AbortSignal} signal */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener('online', end);
      signal.removeEventListener('abort', end);
      if (signal.aborted) reject(signal.reason);
      else resolve(undefined);
    };
    const timer = setTimeout(end, ms);
    addEventListener('online', end);
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
  });
}
