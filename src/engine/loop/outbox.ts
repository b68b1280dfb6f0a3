// Events for the gateway. Those of one step, or of one burst of requests, go in one message, with
// the numbers of running and waiting requests. Used by the engine's loop and the parts that it
// passes requests to.
import { RecuaError } from '../../errors.js';
import type { EngineEvent, EngineStatus } from '../protocol.js';

/** The loop's way out. */
export interface EngineHooks {
  /** All events since the last call, of all requests; `generated` as in the protocol. */
  emit(events: EngineEvent[], status: EngineStatus, generated?: Int32Array): void;
  log(level: 'debug' | 'info' | 'warn' | 'error', text: string): void;
}

export class Outbox {
  readonly #emit: EngineHooks['emit'];
  readonly #status: () => EngineStatus;
  #events: EngineEvent[] = [];
  #generated: number[] = [];
  /** The last status sent: a cancel changes the status without an event. */
  #told: EngineStatus = { running: 0, waiting: 0, tokens: 0 };
  #flushing = false;

  constructor(emit: EngineHooks['emit'], status: () => EngineStatus) {
    this.#emit = emit;
    this.#status = status;
  }

  push(event: EngineEvent): void {
    this.#events.push(event);
    this.flushSoon();
  }

  /** Adds an answer's tokens to the next message, which precedes or carries their text. */
  note(id: number, draws: number, tokens: Int32Array): void {
    this.#generated.push(id, draws, tokens.length, ...tokens);
  }

  fail(id: number, error: RecuaError): void {
    this.push({ id, kind: 'error', error: error.toPlain() });
  }

  /** The work's result is the request's answer. */
  async answer(id: number, work: Promise<unknown>): Promise<void> {
    await work.then((value) => this.push({ id, kind: 'result', value }), (error: unknown) => this.fail(id, RecuaError.from(error)));
  }

  /** Lets `write` append events; the caller flushes when they are complete. */
  gather(write: (events: EngineEvent[]) => void): void {
    write(this.#events);
  }

  /** Flushes after the current turn of the event loop, so that events go out together. */
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
    const generated = this.#generated.length > 0 ? Int32Array.from(this.#generated) : undefined;
    this.#generated = [];
    this.#emit(events, this.#told, generated);
  }

  #hasNews(): boolean {
    const { running, waiting } = this.#status();
    return this.#events.length > 0 || running !== this.#told.running || waiting !== this.#told.waiting;
  }
}
