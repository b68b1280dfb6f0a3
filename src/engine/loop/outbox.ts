// What the loop tells the gateway: the events of one step, or of one burst of requests, go in one
// message, together with how many requests run and wait. Used by the engine's loop, and by all that
// it hands requests to.
import { RecuaError } from '../../errors.js';
import type { EngineEvent, EngineStatus } from '../protocol.js';

/** Who the loop tells. */
export interface EngineHooks {
  /**
   * All that happened since the last call, for all requests together; `generated` as the protocol
   * has it.
   */
  emit(events: EngineEvent[], status: EngineStatus, generated?: Int32Array): void;
  log(level: 'debug' | 'info' | 'warn' | 'error', text: string): void;
}

export class Outbox {
  readonly #emit: EngineHooks['emit'];
  readonly #status: () => EngineStatus;
  #events: EngineEvent[] = [];
  #generated: number[] = [];
  /** What the gateway was told last: a cancel changes it without an event. */
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

  /** Tokens of an answer, which go with the next events: text that is made of them, or others'. */
  note(id: number, draws: number, tokens: Int32Array): void {
    this.#generated.push(id, draws, tokens.length, ...tokens);
  }

  fail(id: number, error: RecuaError): void {
    this.push({ id, kind: 'error', error: error.toPlain() });
  }

  /** What the work gives is the request's answer. */
  async answer(id: number, work: Promise<unknown>): Promise<void> {
    await work.then((value) => this.push({ id, kind: 'result', value }), (error: unknown) => this.fail(id, RecuaError.from(error)));
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
    const generated = this.#generated.length > 0 ? Int32Array.from(this.#generated) : undefined;
    this.#generated = [];
    this.#emit(events, this.#told, generated);
  }

  #hasNews(): boolean {
    const { running, waiting } = this.#status();
    return this.#events.length > 0 || running !== this.#told.running || waiting !== this.#told.waiting;
  }
}
