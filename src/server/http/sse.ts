// Server-sent events over one HTTP response: framing, headers, backpressure and signs of life.
// Knows no payload. Used by the streaming routes. A clogged socket makes the writer wait, so that
// deltas merge in the engine's answer instead of piling up in this process.
import type { Response } from 'express';

export interface PingOptions {
  /** Silence after which `ping` is sent; 0 is never. */
  afterMs: number;
  /** A data-bearing event: many clients do not count comment lines as activity. */
  data: () => unknown;
}

export class EventStream {
  readonly #res: Response;
  #timer: NodeJS.Timeout | undefined;
  #clogged = false;

  constructor(res: Response) {
    this.#res = res;
    res.on('drain', () => (this.#clogged = false));
    res.once('close', () => clearTimeout(this.#timer));
  }

  /** Sends the headers at once; from here on errors are events. */
  open(ping: PingOptions): void {
    this.#res.status(200).set({
      'Content-Type': 'text/event-stream; charset=utf-8',
      'Cache-Control': 'no-cache',
      // nginx would else collect the stream into its own buffers.
      'X-Accel-Buffering': 'no',
    });
    this.#res.flushHeaders();
    if (ping.afterMs <= 0 || this.#res.destroyed) return;
    this.#timer = setTimeout(() => {
      if (this.#clogged) this.#timer?.refresh();
      else this.send(ping.data());
    }, ping.afterMs);
  }

  /**
   * One event; strings go as they are, all else as JSON. Nothing happens once the client is gone.
   */
  send(data: unknown): void {
    if (this.#res.destroyed || this.#res.writableEnded) return;
    const text = typeof data === 'string' ? data : JSON.stringify(data);
    if (!this.#res.write(`data: ${text}\n\n`)) this.#clogged = true;
    this.#timer?.refresh();
  }

  /**
   * Resolves when the socket takes more, or is gone: one that takes nothing for long is closed by
   * traffic.
   */
  async writable(): Promise<void> {
    const res = this.#res;
    if (!this.#clogged || res.destroyed) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        res.off('drain', done);
        res.off('close', done);
        resolve();
      };
      res.on('drain', done);
      res.on('close', done);
    });
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#res.end();
  }
}
