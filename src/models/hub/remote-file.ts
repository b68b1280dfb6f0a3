// One file of the hub, read by byte ranges. Checks every answer before passing on a byte: the right
// range of the right file, and not a login page. Retries transient failures (broken, stalled or
// busy hosts, expired signed addresses, short bodies) from the byte where they stopped. Used by
// transfer.ts and remote-model.ts.
import { RecuaError } from '../../errors.js';
import { ConnectionFault } from './connection-fault.js';
import type { Hub, HubFile, Location, OnSetback } from './hub.js';
import { refusalError, rateLimited } from './hub-refusal.js';
import { delayMs, pause } from './retry.js';
import type { WebAnswer } from './web-request.js';

/** The file changed since the listing was read, or between two pieces. */
export class FileChanged extends Error {}
/** The host ignores ranges and sends the whole file. */
export class NoRanges extends Error {}

/** A transient failure. */
class Setback extends Error {
  readonly waitMs: number;

  constructor(message: string, { waitMs = 0 }: { waitMs?: number } = {}) {
    super(message);
    this.waitMs = waitMs;
  }
}

/**
 * Bytes that an attempt must deliver not to count as a failure: otherwise a host that breaks off
 * after each byte would be retried forever.
 */
const leastProgressBytes = 4096;

export interface RemoteFileOptions {
  hub: Hub;
  repo: string;
  commit: string;
  file: HubFile;
  /** Called with the reason and the pause before each retry. */
  onSetback?: OnSetback | undefined;
}

export class RemoteFile {
  readonly file: HubFile;
  readonly #hub: Hub;
  readonly #repo: string;
  readonly #commit: string;
  readonly #onSetback: OnSetback;
  #location: Promise<Location> | undefined;
  /** Etag of the first piece; all other pieces from the same host must have the same. */
  #etag: { host: string; value: string } | undefined;
  /** False once the host has ignored a range: every read is then of the whole file. */
  ranges = true;

  constructor({ hub, repo, commit, file, onSetback }: RemoteFileOptions) {
    this.file = file;
    this.#hub = hub;
    this.#repo = repo;
    this.#commit = commit;
    this.#onSetback = onSetback ?? (() => undefined);
  }

  /**
   * The bytes from `from` up to but not including `to`, in order. Throws FileChanged, NoRanges (a
   * later call then reads without ranges), the abort's reason, or a RecuaError after too many
   * attempts.
   */
  async *read(from: number, to: number, signal?: AbortSignal): AsyncGenerator<Buffer, void> {
    const { retry } = this.#hub;
    let at = from;
    let failures = 0;
    while (at < to) {
      const begun = at;
      try {
        for await (const piece of this.#attempt(at, to, signal)) {
          at += piece.length;
          if (at - begun >= leastProgressBytes) failures = 0;
          yield piece;
        }
        if (at < to) throw new Setback('the connection ended too early');
      } catch (thrown) {
        const setback = asSetback(thrown);
        failures++;
        if (failures >= retry.attempts) throw this.#givenUp(setback, failures);
        const waitMs = Math.max(setback.waitMs, delayMs(retry, failures));
        if (waitMs > retry.longestRetryAfterMs) throw rateLimited(this.#hub.endpoint, waitMs);
        this.#onSetback(setback.message, waitMs);
        await pause(waitMs, signal);
      }
    }
  }

  /** Forgets what the pieces had in common, to start over. */
  reset(): void {
    this.#etag = undefined;
    this.#location = undefined;
  }

  async *#attempt(from: number, to: number, signal: AbortSignal | undefined): AsyncGenerator<Buffer, void> {
    const location = await this.#locate(signal);
    const ranged = this.ranges;
    const answer = await this.#hub.request(location.url, {
      token: location.token, signal, headers: ranged ? { Range: `bytes=${from}-${to - 1}` } : {},
    }, this.#name);
    try {
      await this.#checkStatus(answer, location, ranged);
      this.#checkKind(answer);
      this.#checkRange(answer, from, to);
      this.#checkEtag(answer);
    } catch (thrown) {
      answer.discard();
      throw thrown;
    }
    let at = answer.status === 206 ? from : 0;
    // If the body ends at `to`, read it to its end, so that the connection can be reused.
    const bodyEnd = answer.status === 206 ? to : this.file.sizeBytes;
    for await (const piece of answer.body()) {
      if (at === 0) this.#checkStart(piece);
      const begin = Math.max(0, from - at);
      const end = Math.min(piece.length, to - at);
      at += piece.length;
      if (begin < end) yield piece.subarray(begin, end);
      if (at > bodyEnd || (at >= to && to < bodyEnd)) break;
    }
  }

  /** All connections share one address; the first asks the hub for it. */
  async #locate(signal: AbortSignal | undefined): Promise<Location> {
    this.#location ??= this.#hub.locate(this.#repo, this.#commit, this.file.path, signal);
    const asking = this.#location;
    try {
      const location = await asking;
      const { etag, sizeBytes } = location;
      if (sizeBytes !== undefined && sizeBytes !== this.file.sizeBytes) throw new FileChanged(`the hub says ${sizeBytes} bytes now instead of ${this.file.sizeBytes}`);
      if (etag !== undefined && etag !== this.file.etag && /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(etag)) throw new FileChanged(`the hub has other contents now, ${etag} instead of ${this.file.etag}`);
      return location;
    } catch (thrown) {
      if (this.#location === asking) this.#location = undefined;
      throw thrown;
    }
  }

  async #checkStatus(answer: WebAnswer, location: Location, ranged: boolean): Promise<void> {
    const { status } = answer;
    if (status === 206 && ranged) return;
    if (status === 200) {
      if (!ranged) return;
      this.#checkKind(answer);
      this.ranges = false;
      throw new NoRanges('the host does not support byte ranges');
    }
    const refusal = await this.#hub.refusalOf(answer);
    if (status === 416) throw new FileChanged('the host says that the file is shorter than it should be');
    if (status === 429 || status === 408 || status >= 500) {
      throw new Setback(status === 429 ? `${answer.url.host} wants fewer requests (429)` : `${answer.url.host} answered ${status}`, { waitMs: refusal.retryAfterMs ?? 0 });
    }
    if (location.token === undefined && !answer.url.href.startsWith(`${this.#hub.endpoint}/`)) {
      // The signed address expired; the hub has a new one.
      this.#location = undefined;
      throw new Setback(`the address at ${answer.url.host} is no longer valid (${status})`);
    }
    throw refusalError(refusal, this.#hub.askedOf({ repo: this.#repo, file: this.file.path }));
  }

  /** A network's login page also answers 200. */
  #checkKind({ headers, url }: WebAnswer): void {
    const type = (headers.get('content-type') ?? '').toLowerCase();
    if (this.#isGguf && /^(text\/html|application\/(json|xhtml))/.test(type)) throw this.#wrongContent(`${type.split(';')[0]} from ${url.host}`);
    const encoding = headers.get('content-encoding');
    if (encoding !== null && encoding !== 'identity') throw this.#wrongContent(`bytes packed as ${encoding.slice(0, 20)} from ${url.host}`);
  }

  #checkRange({ status, headers, url }: WebAnswer, from: number, to: number): void {
    const { sizeBytes } = this.file;
    if (status === 200) {
      const length = headers.get('content-length');
      if (length !== null && Number(length) !== sizeBytes) throw new FileChanged(`${url.host} sends ${length} bytes instead of ${sizeBytes}`);
      return;
    }
    const given = headers.get('content-range') ?? '';
    const match = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(given);
    if (match && match[3] !== '*' && Number(match[3]) !== sizeBytes) throw new FileChanged(`${url.host} says ${match[3]} bytes instead of ${sizeBytes}`);
    if (!match || Number(match[1]) !== from || Number(match[2]) >= to || Number(match[2]) < from) {
      throw new Setback(`${url.host} sent another range than bytes ${from}-${to - 1}: ${given === '' ? 'it does not say which' : given.replace(/[^\x20-\x7e]/g, '').slice(0, 60)}`);
    }
  }

  #checkEtag({ headers, url }: WebAnswer): void {
    const value = headers.get('etag');
    if (value === null) return;
    if (this.#etag?.host !== url.host) this.#etag = { host: url.host, value };
    if (value !== this.#etag.value) throw new FileChanged(`${url.host} changed the file between two pieces of it`);
  }

  #checkStart(piece: Buffer): void {
    const magic = 'GGUF';
    const start = piece.toString('latin1', 0, magic.length);
    if (!this.#isGguf || magic.startsWith(start)) return;
    throw this.#wrongContent(/^\s*</.test(start) ? 'a web page' : `a file that begins with ${JSON.stringify(start)}`);
  }

  get #isGguf(): boolean {
    return /\.gguf$/i.test(this.file.path);
  }

  get #name(): string {
    return `${this.#repo}/${this.file.path}`;
  }

  #wrongContent(got: string): RecuaError {
    return new RecuaError('download_wrong_content', `Expected a GGUF file for ${this.#name}, got ${got}. Nothing of it was kept. If this network has a login page, log in and try again.`);
  }

  #givenUp(setback: Setback, failures: number): RecuaError {
    return new RecuaError('download_failed', `${this.#name} could not be downloaded: ${setback.message}, ${failures} times in a row. What arrived is kept; the same command resumes there.`, { cause: setback });
  }
}

/** Returns a transient failure; rethrows all others. */
function asSetback(thrown: unknown): Setback {
  if (thrown instanceof Setback) return thrown;
  if (thrown instanceof ConnectionFault && thrown.passing) return new Setback(`${thrown.place}: ${thrown.message}`);
  // The hub itself was already retried several times; during a long download another round is worth
  // it.
  if (thrown instanceof RecuaError && ['hub_unreachable', 'hub_broken'].includes(thrown.code) && !isLasting(thrown)) return new Setback(thrown.message.replace(/\.$/, ''));
  throw thrown instanceof ConnectionFault ? thrown.toError() : thrown;
}

function isLasting(error: RecuaError): boolean {
  return error.cause instanceof ConnectionFault && !error.cause.passing;
}
