// One pending request of an engine: its message, which may be sent to several engine processes in
// turn, and how far the current one is with it. Used by engine/gateway/requests.
import { createHash, randomInt } from 'node:crypto';
import { serialize } from 'node:v8';
import { RecuaError } from '../../errors.js';
import type { Released } from '../api.js';
import type { Asker, EngineEvent, RequestMessage } from '../protocol.js';
import { AnswerSoFar } from './answer-so-far.js';
import type { EngineRequests } from './requests.js';

/** Longer texts (in characters) are dropped once an engine process has begun to work on them. */
const mostKept = 4 * 2 ** 20;
const evaluating: ReadonlySet<RequestMessage['type']> = new Set(['chat', 'complete', 'embed', 'rerank']);

/** An engine as one request of a pool has it: see engine/model-pool/lent-engine. */
export interface Lent {
  /** What this engine has of the request. */
  readonly calls: Set<PendingRequest>;
  /** The model is given back, at the latest when the calls here are over. */
  readonly isMoving: boolean;
  /** Gives the model back when the calls here are over, and resolves to its next engine. */
  next(): Promise<EngineRequests>;
  /** A call is over here. */
  left(call: PendingRequest): void;
}

/** Its model is lent, and may have to be given back before the engine has begun it. */
interface Loan {
  lent: Lent;
  /** Starts it in the next engine of the model. */
  again(): void;
}

/** A request that the engine has, or will have after a restart. */
export class PendingRequest {
  readonly id: number;
  readonly type: RequestMessage['type'];
  readonly client: string;
  /** See `Asker`. */
  readonly follows: boolean;
  /** Below 0, it takes no place in a queue from others. */
  readonly priority: number;
  /** The current engine process has it … */
  sent = false;
  /** … and has accepted the prompt as valid and fitting … */
  accepted = false;
  /** … and has begun its first step. */
  begun = false;
  /** Processes in a row that died while they worked on it, without progress in between. */
  deaths = 0;
  /** One of them made no progress, and was ended for that. */
  wasStuck = false;
  /** Tokens of its answer when the last of them died. */
  lengthAtDeath = 0;
  /** The record of a generating request. */
  readonly soFar: AnswerSoFar | undefined;
  readonly event: (event: EngineEvent) => void;
  readonly fail: (error: RecuaError) => void;
  readonly #released: Released;
  #lent: Lent | undefined;
  /** Holds the text. */
  #again: (() => void) | undefined;
  #message: RequestMessage | undefined;
  #fingerprint: string | undefined;
  #hasMoved = false;
  /** Copies that were sent but still wait for the pipe, in this process. */
  #onTheWay = 0;

  constructor(message: RequestMessage, event: PendingRequest['event'], fail: PendingRequest['fail'], released: Released, loan?: Loan) {
    this.id = message.id;
    this.type = message.type;
    const { client = '', priority = 0, follows = false }: Partial<Asker> = ('request' in message ? message.request : message as { asker?: Asker }).asker ?? {};
    this.client = client;
    this.follows = follows;
    this.priority = priority;
    if (message.type === 'chat' || message.type === 'complete') this.soFar = new AnswerSoFar(message.request);
    this.#message = seeded(message);
    this.event = event;
    this.fail = fail;
    this.#released = released;
    this.#lent = loan?.lent;
    this.#again = loan?.again;
    loan?.lent.calls.add(this);
  }

  /**
   * Passes the message to `send`, which calls back when no copy is left here. No-op once dropped.
   * Returns why the message cannot be sent, if so.
   */
  deliver(send: (message: RequestMessage, gone: () => void) => void): RecuaError | undefined {
    const message = this.#message;
    if (!message) return undefined;
    // It may have been asked for since the last process died.
    if ('begun' in message && message.begun && this.soFar) message.begun.endsThinking = this.soFar.endsThinking;
    this.sent = true;
    this.#onTheWay++;
    const gone = (): void => {
      this.#onTheWay--;
      this.#tellReleased();
    };
    try {
      send(message, gone);
    } catch (thrown) {
      gone();
      return new RecuaError('invalid_value', `The request cannot be sent to the engine process: ${(thrown as Error).message}`);
    }
    return undefined;
  }

  /** Changes the message for the next engine process, which has to continue the answer. */
  resume(): void {
    const message = this.#message;
    if (!message || !this.soFar) return;
    if (message.type === 'chat' || message.type === 'complete') message.begun = this.soFar.resume();
  }

  /** Undoes `resume`: the next engine process has another model, and begins the answer anew. */
  startOver(): void {
    this.soFar?.startOver();
    this.deaths = this.lengthAtDeath = 0;
    this.wasStuck = false;
    if (this.#message && 'begun' in this.#message) this.#message.begun = undefined;
  }

  /** Equal for requests that ask for the same, whoever does, with any seed. */
  get fingerprint(): string {
    // The message is there until `dropLong` has asked for this.
    return (this.#fingerprint ??= fingerprintOf(this.#message!));
  }

  /** Whether it makes the engine evaluate something. */
  get evaluates(): boolean {
    return evaluating.has(this.type);
  }

  /** Its text is kept, so it can be sent again. */
  get isKept(): boolean {
    return this.#message !== undefined;
  }

  /** Whether the next process can do it, or continue it, if the current one dies. */
  get survives(): boolean {
    return this.isKept && !(this.sent && isAboutKv(this.type));
  }

  /** Whether another engine may do all of it: nothing of it has been done here. */
  get mayMove(): boolean {
    return this.#again !== undefined && this.isKept && !this.begun && this.deaths === 0 && !this.soFar?.hasStarted;
  }

  /** The engine works on it, and will end it. */
  begin(): void {
    this.begun = true;
    this.#again = undefined;
  }

  /** Gives it to the next engine of the model. */
  move(): void {
    const again = this.#again!;
    this.#hasMoved = true;
    this.#message = undefined;
    this.left();
    again();
  }

  /** Drops a long text, since the engine works on it now; not that of a suspect. */
  dropLong(): void {
    if (!this.#message || this.deaths > 0 || lengthOf(this.#message) <= mostKept) return;
    void this.fingerprint;
    this.drop();
  }

  /** Drops the text: the request will not be sent again. */
  drop(): void {
    if (!this.#message) return;
    this.#message = undefined;
    this.#tellReleased();
  }

  /** This engine has it no more. */
  left(): void {
    this.#lent?.left(this);
    this.#lent = this.#again = undefined;
  }

  #tellReleased(): void {
    if (!this.#message && !this.#hasMoved && this.#onTheWay === 0) this.#released();
  }
}

/**
 * Sets a seed, so that another engine process draws the same random numbers. The largest 32-bit
 * seed means "random", so it is never chosen.
 */
function seeded(message: RequestMessage): RequestMessage {
  if ((message.type !== 'chat' && message.type !== 'complete') || message.request.sampling.seed !== undefined) return message;
  const sampling = { ...message.request.sampling, seed: randomInt(0xffff_ffff) };
  return { ...message, request: { ...message.request, sampling } } as RequestMessage;
}

/** About the KV of sequences, which die with the process. */
function isAboutKv(type: PendingRequest['type']): boolean {
  return type === 'save' || type === 'restore' || type === 'forget';
}

function fingerprintOf(message: RequestMessage): string {
  const { type } = message;
  let asked: object = { ...message, id: 0, asker: undefined };
  if ('request' in message) {
    const { request } = message;
    asked = { ...request, asker: undefined, ...('sampling' in request ? { sampling: { ...request.sampling, seed: undefined } } : {}) };
  }
  return createHash('sha256').update(serialize([type, asked])).digest('base64');
}

function lengthOf(message: RequestMessage): number {
  switch (message.type) {
    case 'chat': return message.request.messages.length + message.request.tools.length;
    case 'complete': return message.request.prompt.length;
    case 'embed': return message.request.inputs.reduce((sum, { length }) => sum + length, 0);
    case 'rerank': return message.request.documents.reduce((sum, { length }) => sum + length, 0);
    default: return 0;
  }
}
