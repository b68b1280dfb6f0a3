// Reads messages line by line if the screen cannot be drawn on (TERM=dumb, or stdout is not a
// terminal), with the system's line editing and no escape codes. If stdout is not a terminal, it is
// data, so prompts go to stderr.
import { createInterface } from 'node:readline';
import type { Interface } from 'node:readline';
import { say, tame } from '../../terminal/output.js';
import { stopCode } from '../../terminal/signals.js';
import { edit, emptyDraft, enter } from './editor.js';
import type { Draft } from './editor.js';
import type { History } from './history.js';
import type { Entry, Input } from './input.js';
import { againLeaves } from './input.js';

export class PlainInput implements Input {
  onInterrupt: () => void = () => {};
  onSay: () => void = () => {};
  onClear: () => void = () => {};
  keepsHistory = true;
  readonly recalls = '';
  readonly #lines: Interface;
  readonly #talk: NodeJS.WriteStream;
  readonly #history: History;
  #draft: Draft = emptyDraft;
  #initial = '';
  #armed = false;
  #ended = false;
  /** The exit code, once the chat is to end. */
  #over: number | undefined;
  #waiting: string[] = [];
  #resolve: ((entry: Entry) => void) | undefined;

  constructor(history: History) {
    this.#history = history;
    this.#talk = process.stdout.isTTY ? process.stdout : process.stderr;
    this.#lines = createInterface({ input: process.stdin, terminal: false });
    this.#lines.on('line', (line) => {
      if (this.#resolve) this.#take(line);
      else this.#waiting.push(line);
    });
    this.#lines.on('close', () => {
      this.#ended = true;
      if (this.#resolve) this.#talk.write('\n');
      this.#settle({ kind: 'leave', code: 0 });
    });
    process.stdout.on('error', this.#onUnwritable);
  }

  get columns(): number {
    return this.#talk.columns ?? Infinity;
  }

  read(initial: string): Promise<Entry> {
    if (this.#over !== undefined) return Promise.resolve({ kind: 'leave', code: this.#over });
    this.#draft = emptyDraft;
    this.#armed = false;
    // The system's line editing cannot start with a text.
    this.#initial = initial;
    if (initial !== '') this.#talk.write(`Your message was the following; Enter alone sends it again:\n${initial}\n`);
    const entry = new Promise<Entry>((resolve) => (this.#resolve = resolve));
    this.#talk.write('> ');
    while (this.#resolve && this.#waiting.length > 0) this.#take(this.#waiting.shift()!);
    if (this.#ended) this.#settle({ kind: 'leave', code: 0 });
    return entry;
  }

  write(text: string): void {
    process.stdout.write(text);
  }

  say(text: string): void {
    if (process.stdout.isTTY) this.onSay();
    this.#talk.write(`${tame(text)}\n`);
  }

  interrupt(): void {
    if (!this.#resolve) return this.onInterrupt();
    if (this.#draft.text === '' && this.#armed) return this.#settle({ kind: 'leave', code: stopCode() });
    this.#armed = true;
    this.#draft = emptyDraft;
    this.#initial = '';
    this.onClear();
    this.#talk.write(`\n${againLeaves}\n> `);
  }

  leave(code = stopCode()): void {
    this.#over ??= code;
    this.#settle({ kind: 'leave', code: this.#over });
  }

  close(): void {
    this.leave();
    process.stdout.off('error', this.#onUnwritable);
    this.#lines.close();
    process.stdin.pause();
  }

  /** Its reader may be gone, as after `recua chat | tee log` and Ctrl-C. */
  readonly #onUnwritable = ({ code, message }: NodeJS.ErrnoException): void => {
    // The loss of a terminal comes as a signal, too.
    if (this.#over !== undefined || process.stdout.isTTY) return;
    const isClosed = code === 'EPIPE';
    say(isClosed ? 'Nobody reads stdout any more, so the chat ends.' : `recua: stdout cannot be written: ${message}`);
    this.leave(isClosed ? 0 : 1);
    this.onInterrupt();
  };

  #take(line: string): void {
    this.#armed = false;
    this.#draft = edit(this.#draft, { do: 'insert', text: line });
    const means = enter(this.#draft);
    if (means.kind === 'break') {
      this.#draft = means.draft;
      this.#talk.write('  ');
    } else if (means.text.trim() === '' && this.#initial !== '') {
      this.#settle({ kind: 'text', text: this.#initial, fenced: true });
    } else if (means.text.trim() === '') {
      this.#draft = emptyDraft;
      this.#talk.write('> ');
    } else {
      if (this.keepsHistory) void this.#history.add(this.#draft.text);
      this.#settle({ kind: 'text', text: means.text, fenced: means.fenced });
    }
  }

  #settle(entry: Entry): void {
    const resolve = this.#resolve;
    this.#resolve = undefined;
    resolve?.(entry);
  }
}
