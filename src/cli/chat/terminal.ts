// The terminal of an interactive chat: raw mode and bracketed paste while the chat runs, and the
// terminal's own state again whenever it ends or stops, in any way except SIGKILL. Keys come from
// here; all output goes through here.
import { writeSync } from 'node:fs';
import { emitKeypressEvents } from 'node:readline';
import type { Key } from 'node:readline';
import type { ReadStream, WriteStream } from 'node:tty';
import { isForeground } from '../terminal/foreground.js';
import { screenOf } from '../markdown/screen.js';

export type { Key };

type Output = WriteStream & { fd: number };

const pasteOn = '\x1b[?2004h';
const pasteOff = '\x1b[?2004l';

export class Terminal {
  readonly #input: ReadStream;
  readonly #output: Output;
  #open = false;
  #leaving = false;
  #raw = false;
  #lent = false;
  /** Running while the chat waits for the foreground. */
  #asking: NodeJS.Timeout | undefined;
  #onKey: (text: string | undefined, key: Key) => void = () => {};
  #onResume: () => void = () => {};
  #onResize: () => void = () => {};
  readonly #restore = () => this.#leaveRaw();
  readonly #continue = () => {
    clearTimeout(this.#asking);
    // If the chat ended, or was told to end, while it was stopped, the terminal belongs to the
    // shell; if it is lent, to the borrower.
    if (!this.#open || this.#leaving || this.#lent) return;
    if (!isForeground()) {
      // Continued by `bg`, or by `kill`, whose other signal may come after this one. A shell does
      // not tell a running job that it is in the foreground again.
      this.#asking = setTimeout(this.#continue, 100);
      return;
    }
    this.#enterRaw();
    this.#input.resume();
    this.#onResume();
  };

  /** The terminal was closed. */
  readonly #gone = () => {
    // Not by a real signal if there are listeners: Node would hear it later, and may end before.
    if (this.#open && !process.emit('SIGHUP', 'SIGHUP')) process.kill(process.pid, 'SIGHUP');
  };

  readonly #key = (text: string | undefined, key: Key) => this.#onKey(text, key);

  constructor(input: ReadStream, output: Output) {
    this.#input = input;
    this.#output = output;
  }

  get columns(): number {
    return screenOf(this.#output).columns;
  }

  get rows(): number {
    return screenOf(this.#output).rows;
  }

  /** From here until `close`, keys arrive one by one. */
  open(handlers: { key(text: string | undefined, key: Key): void; resized(): void; resumed(): void }): void {
    this.#open = true;
    this.#onKey = handlers.key;
    this.#onResume = handlers.resumed;
    this.#onResize = handlers.resized;
    emitKeypressEvents(this.#input);
    this.#input.on('keypress', this.#key);
    this.#input.on('end', this.#gone);
    this.#input.on('error', this.#gone);
    this.#output.on('resize', this.#onResize);
    process.on('exit', this.#restore);
    process.on('SIGCONT', this.#continue);
    this.#enterRaw();
    this.#input.resume();
  }

  /** From here on, the terminal is not taken again once it was given back. */
  leave(): void {
    this.#leaving = true;
  }

  close(): void {
    this.#open = false;
    clearTimeout(this.#asking);
    this.#leaveRaw();
    this.#input.removeListener('keypress', this.#key);
    this.#input.removeListener('end', this.#gone);
    this.#input.removeListener('error', this.#gone);
    this.#output.removeListener('resize', this.#onResize);
    process.removeListener('exit', this.#restore);
    process.removeListener('SIGCONT', this.#continue);
    this.#input.pause();
  }

  write(text: string): void {
    this.#output.write(text);
  }

  /** Ctrl-Z: the whole job stops, and the shell gets its terminal back as it was. */
  suspend(): void {
    if (process.platform === 'win32') return;
    this.#leaveRaw();
    // Reading in the background would stop the chat, too.
    this.#input.pause();
    process.kill(0, 'SIGTSTP');
    // Without job control, nothing was stopped, so go on.
    this.#asking = setTimeout(this.#continue, 50);
  }

  /** Lends the terminal, in its original state, to another program until that is done. */
  async lend<T>(use: () => Promise<T>): Promise<T> {
    this.#lent = true;
    this.#leaveRaw();
    this.#input.pause();
    try {
      return await use();
    } finally {
      this.#lent = false;
      if (this.#open && !this.#leaving) {
        this.#enterRaw();
        this.#input.resume();
      }
    }
  }

  #enterRaw(): void {
    if (this.#raw) return;
    this.#raw = true;
    this.#input.setRawMode(true);
    this.#output.write(pasteOn);
  }

  #leaveRaw(): void {
    if (!this.#raw) return;
    this.#raw = false;
    try {
      // An exit handler can only write synchronously.
      writeSync(this.#output.fd, pasteOff);
      this.#input.setRawMode(false);
    } catch {
      // The terminal is gone.
    }
  }
}
