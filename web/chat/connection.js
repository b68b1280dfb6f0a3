// The line to the server while an answer comes: notices that it is cut, and waits until the server
// is there again. Whether it is the same one decides how the answer goes on.
import { json, ServerError } from '../app/server.js';

/** What is asked about the server waits no longer. */
const probeMs = 5_000;
/** Streams are silent no longer than the server's pings are apart, ten seconds unless it is told. */
const silentMs = 30_000;
const firstPauseMs = 300;
const longestPauseMs = 5_000;
/** A server that is away longer is not waited for. */
const waitMs = 180_000;

/** What a stream throws that was ended by us, since nothing answers any more. */
export const cutOff = () => new ServerError('The connection ended before the answer was complete.', 'cut_off');

/** @param {unknown} thrown */
export const isCut = (thrown) => thrown instanceof ServerError && (thrown.code === 'cut_off' || thrown.code === 'unreachable');

/**
 * Another one after each start of the server; undefined where it does not tell.
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
    // It said no, so it is there.
    return undefined;
  }
}

/**
 * Ends a stream whose connection is dead without a word: the network went away, or nothing came for
 * long and the server cannot be asked either.
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
 * Waits until the server answers. Returns its id; throws where it stays away, and where `signal`
 * ends the wait.
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
      if (performance.now() - startMs > waitMs) throw new ServerError('The connection broke, and the server did not answer for three minutes.', 'unreachable');
    }
  }
}

/** Ends early where the browser has a network again. @param {number} ms @param {AbortSignal} signal */
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
