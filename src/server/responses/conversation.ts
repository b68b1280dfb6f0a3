// OpenAI's WebSocket for responses: each message requests a response, whose events are sent as
// messages. The connection remembers its last response, stored or not, so that the next turn only
// sends new input. For each message the server makes a request to itself, so limits, errors and
// events are those of POST /v1/responses. Opened by http/upgrades.
import type { IncomingMessage } from 'node:http';
import type { RawData, WebSocket } from 'ws';
import { RecuaError } from '../../errors.js';
import { isObject, wrongType, wrongValue } from '../../request/fields.js';
import { KeyWatch } from '../access/key-watch.js';
import { pageHeaders } from '../access/pages.js';
import { errorBody, type ErrorBody } from '../http/error-reply.js';
import type { Gateway } from '../http/gateway.js';
import type { CarriedHeaders } from '../http/inner.js';
import type { Opener, SocketRoute } from '../http/upgrades.js';
import { traceHeadersOf } from '../traces/trace-headers.js';
import type { StoredResponse } from './store.js';

/** Messages that may wait while another one is being answered. */
const mostWaiting = 16;
/**
 * Memory of all conversations between messages. Without room, the client must resend everything.
 */
const mostHeldBytes = 256 * 1024 * 1024;
/** Most of it for one API key, or for one address without keys. */
const mostHeldBytesOfOne = mostHeldBytes / 4;
const bytesPerLetter = 2;

/** WebSocket close codes. */
const goingAway = 1001;
const noText = 1003;
const tooMuch = 1008;

const keyRemoved = 'The API key has expired, or was removed or renamed.';

/** The memory that conversations hold between messages. */
class Held {
  #bytes = 0;
  readonly #bytesOf = new Map<string, number>();

  /** Adds `letters` characters of `who`; false if there is no room. */
  add(letters: number, who: string): boolean {
    const bytes = letters * bytesPerLetter;
    if (this.#bytes + bytes > mostHeldBytes || (this.#bytesOf.get(who) ?? 0) + bytes > mostHeldBytesOfOne) return false;
    this.#change(bytes, who);
    return true;
  }

  remove(letters: number, who: string): void {
    this.#change(-letters * bytesPerLetter, who);
  }

  #change(bytes: number, who: string): void {
    this.#bytes += bytes;
    const own = (this.#bytesOf.get(who) ?? 0) + bytes;
    if (own > 0) this.#bytesOf.set(who, own);
    else this.#bytesOf.delete(who);
  }
}

export class Conversation {
  readonly #gateway: Gateway;
  readonly #socket: WebSocket;
  readonly #held: Held;
  readonly #opener: Opener;
  readonly #carried: CarriedHeaders;
  readonly #gone = new AbortController();
  readonly #waiting: string[] = [];
  /** All items up to the last response, as JSON; the client need not resend them. */
  #last: { id: string; items: string } | undefined;
  #work: Promise<void> | undefined;

  constructor(gateway: Gateway, socket: WebSocket, held: Held, opener: Opener) {
    this.#gateway = gateway;
    this.#socket = socket;
    this.#held = held;
    this.#opener = opener;
    this.#carried = { ...traceHeadersOf(opener.headers), ...pageHeaders(opener.headers) };
    socket.on('message', (data, isBinary) => this.#take(data, isBinary));
    socket.on('close', () => {
      this.#gone.abort();
      this.#forget();
      held.remove(this.#waitingLetters(), opener.who);
      this.#waiting.length = 0;
    });
    // 'close' follows.
    socket.on('error', () => undefined);
  }

  /**
   * What a message requests. Changes its body into that of a plain request.
   * @throws RecuaError `invalid_value`, `invalid_type`, `unsupported_parameter`
   */
  asks(body: unknown): 'nothing' | 'preparation' | 'response' {
    // The reader of the request reports the error.
    if (!isObject(body)) return 'response';
    const { type } = body;
    const generate = body['generate'] ?? true;
    // Codex confirms responses that it has seen.
    if (type === 'response.processed') return 'nothing';
    if (type !== 'response.create') throw wrongValue('type', '"response.create"', type);
    if (body['background'] === true) throw wrongValue('background', 'false in a WebSocket', true);
    if (typeof generate !== 'boolean') throw wrongType('generate', 'true or false', generate);
    if ((body['stream_id'] ?? null) !== null) {
      throw new RecuaError('unsupported_parameter', 'stream_id is not supported: a connection answers one message after the other; open another connection.', { param: 'stream_id' });
    }
    delete body['type'];
    delete body['generate'];
    body['stream'] = true;
    return generate ? 'response' : 'preparation';
  }

  /** Items up to the response; undefined if it is not the last one of this connection. */
  history(id: string, hold: (bytes: number) => void): object[] | undefined {
    if (this.#last?.id !== id) return undefined;
    hold(this.#last.items.length);
    return JSON.parse(this.#last.items) as object[];
  }

  remember(before: readonly object[], { response, input }: StoredResponse): void {
    this.#forget();
    const items = JSON.stringify([...before, ...input, ...response.output]);
    if (this.#gone.signal.aborted || items.length > this.#gateway.config.bodyLimitBytes || !this.#held.add(items.length, this.#opener.who))
      return;
    this.#last = { id: response.id, items };
  }

  #forget(): void {
    this.#held.remove(this.#last?.items.length ?? 0, this.#opener.who);
    this.#last = undefined;
  }

  /** Once it closes, nobody gets what is answered. */
  get #isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN;
  }

  #waitingLetters(): number {
    return this.#waiting.reduce((sum, one) => sum + one.length, 0);
  }

  /** Completes the running answer and drops waiting messages. */
  async drain(): Promise<void> {
    this.#held.remove(this.#waitingLetters(), this.#opener.who);
    this.#waiting.length = 0;
    await this.#work;
    this.#socket.close(goingAway, 'The server is stopping.');
  }

  #take(data: RawData, isBinary: boolean): void {
    if (!this.#isOpen) return;
    if (isBinary) return this.#socket.close(noText, 'Expected text.');
    if (!this.#opener.mayGoOn()) return this.#socket.close(tooMuch, keyRemoved);
    const text = (data as Buffer).toString('utf8');
    const isMuch =
      this.#waiting.length > 0 &&
      (this.#waiting.length >= mostWaiting || this.#waitingLetters() + text.length > this.#gateway.config.bodyLimitBytes);
    if (isMuch || !this.#held.add(text.length, this.#opener.who)) {
      return this.#socket.close(tooMuch, 'Too many messages are waiting.');
    }
    this.#waiting.push(text);
    this.#work ??= this.#answerAll().finally(() => (this.#work = undefined));
  }

  /** Closes the connection as soon as no answer runs. */
  endIdle(): void {
    if (!this.#work) this.#socket.close(tooMuch, keyRemoved);
  }

  async #answerAll(): Promise<void> {
    while (this.#waiting.length > 0 && this.#isOpen) {
      const text = this.#waiting.shift()!;
      this.#held.remove(text.length, this.#opener.who);
      await this.#answer(text);
    }
  }

  async #answer(body: string): Promise<void> {
    try {
      const { status, body: reply } = await this.#gateway.inner.ask({ path: '/v1/responses', body, reason: this, by: this.#opener.by, client: this.#opener.who, carried: this.#carried, signal: this.#gone.signal, read: (stream) => this.#forward(stream) });
      if (status >= 400) await this.#fail(status, JSON.parse(reply.toString()) as ErrorBody);
    } catch (thrown) {
      if (this.#gone.signal.aborted) return;
      // There was no room for an event.
      const error = thrown instanceof RecuaError ? thrown
        : new RecuaError('internal_error', `A response over a WebSocket ended without a reply: ${(thrown as Error).message}`, { cause: thrown });
      if (error !== thrown) this.#gateway.log('error', error.message);
      await this.#fail(error.status, errorBody(error)).catch(() => this.#socket.terminate());
    }
  }

  async #fail(status: number, error: ErrorBody): Promise<void> {
    await this.#opener.send([JSON.stringify(failure(status, error))], this);
  }

  /** Sends the data of each event. */
  async #forward(stream: IncomingMessage): Promise<void> {
    stream.setEncoding('utf8');
    let rest = '';
    for await (const text of stream as AsyncIterable<string>) {
      const events = (rest + text).split('\n\n');
      rest = events.pop()!;
      await this.#opener.send(events.map((event) => event.slice(event.indexOf('data: ') + 'data: '.length)), this);
    }
  }
}

/** Opens conversations, which share their memory limit. */
export function conversations(gateway: Gateway): SocketRoute['open'] {
  const open = new Set<Conversation>();
  const held = new Held();
  const keys = new KeyWatch();
  gateway.traffic.onDrain(() => Promise.all([...open].map((one) => one.drain())));
  return (socket, opener) => {
    const one = new Conversation(gateway, socket, held, opener);
    open.add(one);
    socket.once('close', () => open.delete(one));
    keys.add(socket, { isValid: opener.mayGoOn, end: () => one.endIdle() });
  };
}

/** A missing previous response has its own code here, on which clients resend the history. */
function failure(status: number, { error }: ErrorBody): object {
  const isGone = error.code === 'response_not_found' && error.param === 'previous_response_id';
  return { type: 'error', status: isGone ? 400 : status, error: isGone ? { ...error, code: 'previous_response_not_found' } : error };
}
