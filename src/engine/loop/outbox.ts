// What the loop tells the gateway: the events of one step, or of one burst of requests, go in one
// message, together with how many requests run and wait. Used by the engine's loop, and by all that
// it hands requests to.
import type { RecuaError } from '../../errors.js';
import type { EngineEvent, EngineStatus } from '../protocol.js';

export class Outbox {
  readonly #emit: (events: EngineEvent[], status: EngineStatus) => void;
  readonly #status: () => EngineStatus;
  #events: EngineEvent[] = [];
  /** What the gateway was told last: a cancel changes it without an event. */
  #told: EngineStatus = { running: 0, waiting: 0, tokens: 0 };
  #flushing = false;

  constructor(emit: (events: EngineEvent[], status: EngineStatus) => void, status: () => EngineStatus) {
    this.#emit = emit;
    this.#status = status;
  }

  push(event: EngineEvent): void {
    this.#events.push(event);
    this.flushSoon();
  }

  fail(id: number, error: RecuaError): void {
    this.push({ id, kind: 'error', error: error.toPlain() });
  }

  /** Has `write` append events; who calls it flushes when all that belongs together is there. */
  gather(write: (events: EngineEvent[]) => void): void {
    write(this.#events);
  }

  /** After the current turn, so that what belongs together goes together. */
  flushSoon(): void {
    if (this.#flushing || !this.#hasNews()) return;
    this.#flushing = true;
    setImmediate(() => {
      this.#flushing = false;
      this.flush();
    });
  }

  flush(): void {
    if (!this.#hasNews()) return;
    const events = this.#events;
    this.#events = [];
    this.#told = this.#status();
    this.#emit(events, this.#told);
  }

  #hasNews(): boolean {
    const { running, waiting } = this.#status();
    return this.#events.length > 0 || running !== this.#told.running || waiting !== this.#told.waiting;
  }
}
