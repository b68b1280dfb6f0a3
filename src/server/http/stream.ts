// A stream of messages over one HTTP response: headers, framing, backpressure and keep-alive pings.
// Independent of the payload. Used by the streaming routes. A full socket makes the writer wait, so
// that deltas merge in the engine's answer instead of piling up in this process.
import { setImmediate } from 'node:timers/promises';
import type { Response } from 'express';
import { jsonText } from './long-json.js';

/** One message of a stream. */
export interface Frame {
  /** Strings are sent as they are, anything else as JSON. */
  data: unknown;
  /** Event name, if the framing has names. */
  event?: string;
}

export interface Framing {
  contentType: string;
  text(frame: Frame): string;
}

/** Server-sent events. */
export const sse: Framing = {
  contentType: 'text/event-stream; charset=utf-8',
  text: ({ event, data }) => `${event === undefined ? '' : `event: ${event}\n`}data: ${asText(data)}\n\n`,
};

/** One JSON text per line. */
export const ndjson: Framing = {
  contentType: 'application/x-ndjson; charset=utf-8',
  text: ({ data }) => `${asText(data)}\n`,
};

function asText(data: unknown): string {
  return typeof data === 'string' ? data : JSON.stringify(data);
}

export interface PingOptions {
  /** Silence after which `frame` is sent; 0 means never. */
  afterMs: number;
  /** Carries data, since many clients do not count comment lines as activity. */
  frame: () => Frame;
}

export class Stream {
  readonly #res: Response;
  readonly #framing: Framing;
  #timer: NodeJS.Timeout | undefined;
  #clogged = false;

  constructor(res: Response, framing: Framing = sse) {
    this.#res = res;
    this.#framing = framing;
    res.on('drain', () => (this.#clogged = false));
    res.once('close', () => clearTimeout(this.#timer));
  }

  /** Sends the headers at once. From here on, errors are messages of the stream. */
  open(ping: PingOptions): void {
    this.#res.status(200).set({
      'Content-Type': this.#framing.contentType,
      // Compression, as Express middleware or in a proxy, would hold the pieces back.
      'Cache-Control': 'no-cache, no-transform',
      // Without this, nginx buffers the stream.
      'X-Accel-Buffering': 'no',
    });
    this.#res.flushHeaders();
    // The answer to HEAD ends here, however long the stream would be.
    if (this.#res.req.method === 'HEAD') return this.end();
    if (ping.afterMs <= 0 || this.#res.destroyed) return;
    this.#timer = setTimeout(() => {
      if (this.#clogged) this.#timer?.refresh();
      else this.send(ping.frame());
    }, ping.afterMs);
  }

  /** Does nothing once the client is gone. */
  send(...frames: Frame[]): void {
    if (frames.length === 0 || this.#res.destroyed || this.#res.writableEnded) return;
    if (!this.#res.write(frames.map((frame) => this.#framing.text(frame)).join(''))) this.#clogged = true;
    this.#timer?.refresh();
  }

  /** Sends frames that take long to make, with turns for other work between them. */
  async sendInTurns(frames: Iterable<Frame>): Promise<void> {
    for (const { event, data } of frames) {
      if (this.#res.destroyed || this.#res.writableEnded) return;
      const text = typeof data === 'string' ? data : await jsonText(data as object);
      this.send(event === undefined ? { data: text } : { event, data: text });
      await (this.writable() ?? setImmediate());
    }
  }

  /**
   * Resolves when the socket takes more data, or is gone; traffic closes sockets that stall.
   * Undefined if there is nothing to wait for.
   */
  writable(): Promise<void> | undefined {
    return this.#clogged && !this.#res.destroyed ? drained(this.#res) : undefined;
  }

  /** No pings from here on. */
  quiet(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#res.end();
  }
}

/** Resolves when the client has taken what was written, or is gone. */
export function drained(res: Response): Promise<void> {
  return new Promise<void>((resolve) => {
    const done = (): void => {
      res.off('drain', done);
      res.off('close', done);
      resolve();
    };
    res.on('drain', done);
    res.on('close', done);
    if (res.destroyed) done();
  });
}
