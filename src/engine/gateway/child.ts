// One engine process, from fork to exit: passes messages, forwards its stdout and stderr, reports
// its end. engine/gateway/client makes a new Child after each crash.
import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { Channel } from '../channel.js';
import { checkedMessage } from './checked-message.js';
import type { Ending } from './restarts.js';
import { channelSocket, forkEngine, type Wanted } from './spare-process.js';
import type { FromEngine, ToEngine } from '../protocol.js';

export interface ChildEvents {
  message(message: FromEngine): void;
  /**
   * A line that the process, or a library in it, wrote to its stderr or stdout. `isOwn`: this
   * program's own words about the process.
   */
  output(line: string, isOwn?: boolean): void;
  /** Called once, when the process is gone. `how`: the signal or exit code. */
  gone(how: string, ending: Ending): void;
}

/** The reason why the system started no process, as a part of a sentence. */
export function couldNotStart({ message, code }: NodeJS.ErrnoException): string {
  return `could not start: ${code ?? message}${code === 'ENOENT' ? ', as while Recua is being installed' : ''}`;
}

/**
 * Lines that a process prints when it crashes. Other lines may quote a request, which is private to
 * its client (llama.cpp's grammar parser prints a grammar that it refuses), so they are not logged.
 */
export const crashWords = /GGML_|\bggml[-_]|^llama_|CUDA|^libgomp:|terminate called|what\(\):|Assertion|\.(?:c|h|cc|cpp|cu|cuh|m|mjs|js):\d+|^\s+at |FATAL|out of memory|Segmentation/;

/** Pipes are sockets, which have both methods; their declared type is a stream. */
interface Holdable {
  ref?(): void;
  unref?(): void;
}

const longestLine = 8192;

/**
 * A process that has nothing more to say has this long to end by itself, and what it said this long
 * to arrive after its end.
 */
const lastMs = 2_000;

/** The engine processes of this program. One that is stuck does not notice the program's end. */
const running = new Set<Child>();
process.on('exit', () => {
  for (const child of running) child.kill();
});

export class Child {
  readonly #process: ChildProcess;
  /** Undefined if the process could not start. */
  readonly #channel: Channel | undefined;
  #gone = false;
  #held = true;
  #endTimer: NodeJS.Timeout | undefined;

  /** @throws RecuaError `sandbox_unavailable` */
  constructor(entry: string, wanted: Wanted, events: ChildEvents) {
    const child = forkEngine(entry, wanted);
    this.#process = child;
    running.add(this);
    const gone = (how: string, ending: Ending): void => {
      if (this.#gone) return;
      this.#gone = true;
      clearTimeout(this.#endTimer);
      running.delete(this);
      events.gone(how, ending);
    };
    // The process is broken or taken over. It ends, and not this program, which hears no more of
    // it.
    const breakOff = (error: Error): void => {
      this.#channel?.close();
      events.output(`a message of the process could not be used: ${error.stack?.replaceAll('\n', ' |')}`, true);
      this.kill();
    };
    const socket = channelSocket(child);
    this.#channel = socket && new Channel(socket, {
      message: (received) => {
        try {
          const message = checkedMessage(received);
          if (message.type === 'failed') this.#endSoon();
          events.message(message);
        } catch (thrown) {
          breakOff(thrown as Error);
        }
      },
      closed: (error) => (error ? breakOff(error) : this.#endSoon()),
    });
    child.on('error', (error) => {
      if (child.pid === undefined) gone(couldNotStart(error), 'unstarted');
    });
    // 'close' comes after the last message and the last line of output; 'exit' may come before
    // them. Without the timer, 'close' never comes while a process that it left behind lives.
    child.on('exit', () => {
      clearTimeout(this.#endTimer);
      if (!this.#gone) this.#endTimer = setTimeout(() => setImmediate(hearNoMore, child), lastMs).unref();
    });
    child.on('close', (code, signal) => {
      const ending = code === 0 ? 'clean' : signal === 'SIGTERM' ? 'terminated' : 'died';
      gone(signal ? `signal ${signal}` : `exit code ${code}`, ending);
    });
    for (const stream of [child.stdout, child.stderr]) if (stream) forwardLines(stream, (line) => events.output(line));
  }

  get pid(): number | undefined {
    return this.#gone ? undefined : this.#process.pid;
  }

  /**
   * Calls `gone` when no copy of the message is left in this process, whether it arrived or not.
   */
  send(message: ToEngine, gone: () => void = () => {}): void {
    if (this.#channel) this.#channel.send(message, gone);
    else gone();
  }

  /**
   * Sets whether the process keeps an otherwise idle program alive. If the program ends, the engine
   * process ends, too (engine/process/host).
   */
  hold(alive: boolean): void {
    if (alive === this.#held) return;
    this.#held = alive;
    this.#channel?.hold(alive);
    const { stdout, stderr } = this.#process;
    for (const handle of [this.#process, stdout, stderr] as (Holdable | null | undefined)[]) {
      if (alive) handle?.ref?.();
      else handle?.unref?.();
    }
  }

  kill(): void {
    this.#process.kill('SIGKILL');
  }

  /** Kills the process if it does not end by itself in a moment. */
  #endSoon(): void {
    if (!this.#gone) this.#endTimer ??= setTimeout(() => this.kill(), lastMs).unref();
  }
}

/** Closes this end of a process's output and channel. */
function hearNoMore({ stdio }: ChildProcess): void {
  for (const stream of stdio) stream?.destroy();
}

function forwardLines(stream: Readable, give: (line: string) => void): void {
  let begun = '';
  stream.setEncoding('utf8');
  stream.on('data', (text: string) => {
    const lines = (begun + text).split('\n');
    begun = lines.pop()!;
    for (const line of lines) give(line);
    if (begun.length > longestLine) {
      give(begun);
      begun = '';
    }
  });
  stream.on('end', () => {
    if (begun !== '') give(begun);
  });
}
