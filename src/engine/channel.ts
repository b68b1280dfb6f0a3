// The channel between the gateway process and an engine process: a socket that carries structured
// clones, so typed arrays need no conversion. Node's own IPC does the same, but bytes that it
// cannot read end the program that reads them, and a model's file may take over an engine process.
import type { Socket } from 'node:net';
import { DefaultSerializer, deserialize } from 'node:v8';

/** The file descriptor of the engine process's end. */
export const channelDescriptor = 3;

export interface ChannelEvents {
  message(message: unknown): void;
  /** Called once, after the last message. `error`: the bytes after it are no message. */
  closed(error: Error | undefined): void;
}

/** Each message follows its length in bytes, an unsigned integer of 32 bits, little-endian. */
const lengthBytes = 4;

/** Far more than any message has: a request's body and a step's embeddings are shorter. */
const longestMessage = 2 ** 30;

export class Channel {
  readonly #socket: Socket;
  readonly #events: ChannelEvents;
  readonly #mostBytes: number;
  #received: Buffer[] = [];
  #receivedBytes = 0;
  /** Received bytes below which no message is complete. */
  #wantedBytes = lengthBytes;
  #error: Error | undefined;

  /** `mostBytes`: of a message, in both directions. */
  constructor(socket: Socket, events: ChannelEvents, mostBytes = longestMessage) {
    this.#socket = socket;
    this.#events = events;
    this.#mostBytes = mostBytes;
    socket.on('data', (bytes: Buffer) => this.#receive(bytes));
    // The other process is gone, and 'close' follows.
    socket.on('error', () => {});
    socket.on('close', () => events.closed(this.#error));
  }

  /**
   * Calls `gone` when no copy of the message is left in this process, whether it arrived or not.
   * Throws if it is too long, or no structured clone; then `gone` is not called.
   */
  send(message: unknown, gone: () => void = () => {}): void {
    if (!this.#socket.writable) return gone();
    const serializer = new DefaultSerializer();
    serializer.writeRawBytes(Buffer.alloc(lengthBytes));
    serializer.writeHeader();
    serializer.writeValue(message);
    const bytes = serializer.releaseBuffer();
    this.#checkLength(bytes.length - lengthBytes);
    bytes.writeUInt32LE(bytes.length - lengthBytes);
    this.#socket.write(bytes, () => gone());
  }

  /** Sets whether the channel keeps an otherwise idle program alive. */
  hold(alive: boolean): void {
    if (alive) this.#socket.ref();
    else this.#socket.unref();
  }

  /** Hears and says nothing more. */
  close(): void {
    this.#socket.destroy();
  }

  #receive(bytes: Buffer): void {
    this.#received.push(bytes);
    this.#receivedBytes += bytes.length;
    for (let next = this.#take(); next; next = this.#take()) this.#events.message(next.message);
  }

  /** The next message, if it is complete. */
  #take(): { message: unknown } | undefined {
    if (this.#receivedBytes < this.#wantedBytes || this.#socket.destroyed) return undefined;
    const bytes = this.#received.length === 1 ? this.#received[0]! : Buffer.concat(this.#received);
    const length = bytes.readUInt32LE();
    const end = lengthBytes + length;
    try {
      this.#checkLength(length);
      const isComplete = bytes.length >= end;
      this.#wantedBytes = isComplete ? lengthBytes : end;
      if (!isComplete) {
        this.#received = [bytes];
        return undefined;
      }
      this.#received = bytes.length > end ? [bytes.subarray(end)] : [];
      this.#receivedBytes -= end;
      return { message: deserialize(bytes.subarray(lengthBytes, end)) };
    } catch (thrown) {
      this.#error = thrown as Error;
      this.close();
      return undefined;
    }
  }

  #checkLength(bytes: number): void {
    if (bytes > this.#mostBytes) throw new RangeError(`The message has ${bytes} bytes, and may have ${this.#mostBytes}.`);
  }
}
