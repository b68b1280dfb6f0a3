// The log of a server in the foreground, on stderr. Whoever reads that may stop for hours: Ctrl-S
// on a terminal, a connection that hangs, a pipe to a program that waits. This must neither hold up
// the server nor fill its memory: lines are dropped and counted. Gateway process; opened by
// serving.
import type { LogFields, LogLevel } from '../terminal/log-line.js';

/** If more than this waits to be read, lines are dropped. */
const mostWaitingBytes = 4 * 1024 * 1024;
/** For a reader that is merely slow, at the end. */
const lastMs = 1_000;

type Write = (level: LogLevel, text: string, fields?: LogFields) => void;

/** A handle of Node's own. Its `fd` is not 2 if it has opened the terminal anew. */
interface Handle {
  fd?: number;
  setBlocking?(blocks: boolean): void;
}

type Stderr = Pick<NodeJS.WriteStream, 'write' | 'writableLength'> & { _handle?: Handle | null };

export class StderrLog {
  readonly #write: Write;
  readonly #stream: Stderr;
  #lost = 0;

  /** `write` writes a line to the stream. */
  constructor(write: Write, stream: Stderr = process.stderr) {
    this.#write = write;
    this.#stream = stream;
    // Node waits for each write to a terminal, and everything would wait with it. If the terminal
    // is not opened anew, as one of another user, the setting would also be that of the shell.
    if ((stream._handle?.fd ?? 0) > 2) stream._handle!.setBlocking?.(false);
  }

  readonly write: Write = (...line) => {
    if (this.#stream.writableLength > mostWaitingBytes) {
      this.#lost++;
      return;
    }
    const lost = this.#lost;
    this.#lost = 0;
    if (lost > 0) this.#write('warn', `${lost} lines are missing here: nobody read them`);
    this.#write(...line);
  };

  /** Resolves when everything is handed on, or soon in any case. */
  async close(): Promise<void> {
    await new Promise<void>((done) => {
      const timer = setTimeout(done, lastMs);
      this.#stream.write('', () => {
        clearTimeout(timer);
        done();
      });
    });
  }
}
