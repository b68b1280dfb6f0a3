// Output: data goes to stdout, messages to stderr. Neither gets escape codes unless it is a
// terminal.
import { RecuaError } from '../../errors.js';
import { plainLine, type LogFields, type LogLevel } from './log-line.js';
import { noteStop } from './signals.js';
import { plain } from './wording.js';

/** The reader of stdout closed it (`recua run … | head`). This is not a failure. */
export class ReaderGone extends Error {}

let guarded = false;

/**
 * Keeps a closed stdout or stderr from ending the process. `print` reports a closed stdout;
 * messages to a closed stderr are lost.
 */
export function guardOutput(): void {
  if (guarded) return;
  guarded = true;
  process.stdout.on('error', () => { /* print() reports it. */ });
  process.stderr.on('error', () => { /* Nobody reads it. */ });
}

/**
 * Writes data to stdout. Resolves when the data is handed on, so that a slow reader slows down the
 * writer. Throws ReaderGone.
 */
export async function print(text: string): Promise<void> {
  const error = await new Promise<NodeJS.ErrnoException | null | undefined>((resolve) => {
    process.stdout.write(text, resolve);
  });
  if (!error) return;
  if (error.code === 'EPIPE' || error.code === 'ERR_STREAM_DESTROYED') throw new ReaderGone();
  if (error.code === 'EIO' && process.stdout.isTTY) {
    // Its signal may come later.
    noteStop('SIGHUP');
    throw new RecuaError('cancelled', 'The terminal was closed.', { cause: error });
  }
  throw new RecuaError('file_unreadable', `stdout cannot be written: ${error.message}`, { cause: error });
}

/** The form of what commands print with --json, and of files. */
export function toJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

/** Writes a message to stderr, without the control characters that a quoted text may contain. */
export function say(text: string): void {
  aboveProgress(() => process.stderr.write(`${tame(text)}\n`));
}

/** A progress line at the bottom of the terminal, rewritten in place; one at a time. */
interface ProgressLine {
  erase(): void;
  redraw(): void;
}

let progress: ProgressLine | undefined;

function standsAtTheEnd(line: ProgressLine | undefined): void {
  progress = line;
}

/** Runs `write` with the progress line erased, then draws the line again. */
export function aboveProgress(write: () => void): void {
  progress?.erase();
  write();
  progress?.redraw();
}

const levels = ['debug', 'info', 'warn', 'error', 'silent'] as const;

/** A log that passes messages of at least the level `least` to `write`, by default to stderr. */
export function makeLog(
  least: LogLevel | 'silent', write: (level: LogLevel, text: string, fields?: LogFields) => void = (level, text) => say(plainLine(level, text)),
): (level: LogLevel, text: string, fields?: LogFields) => void {
  return (level, text, fields) => {
    if (levels.indexOf(level) >= levels.indexOf(least)) write(level, text, fields);
  };
}

/**
 * The same for messages of an engine. llama.cpp's info messages about a load become debug messages:
 * they matter only to someone who looks for a fault. See `engineLogLevel`.
 */
export function engineLog(log: ReturnType<typeof makeLog>): ReturnType<typeof makeLog> {
  return (level, text) => log(level === 'info' ? 'debug' : level, text);
}

/**
 * The engine's log level that matches `engineLog` on a log of this level, so that an engine process
 * sends no message that would be dropped.
 */
export function engineLogLevel(least: LogLevel | 'silent'): LogLevel {
  if (least === 'silent') return 'error';
  return least === 'info' ? 'warn' : least;
}

/** Holds back errors of an engine's log until it is known whether the failure repeats them. */
export class HeldErrors {
  #lines: string[] = [];

  /** Lower levels are not printed. */
  readonly logLevel = 'warn';

  readonly log = (level: LogLevel, text: string): void => {
    if (level === 'error') this.#lines.push(text.trimEnd());
    else if (level === 'warn') say(plainLine(level, text));
  };

  /** Prints the errors that `thrown` does not contain. */
  tell(thrown?: unknown): void {
    const known = thrown instanceof Error ? thrown.message : '';
    for (const line of this.#lines) if (!known.includes(line)) say(plainLine('error', line));
    this.#lines = [];
  }
}

/** Prints an error, in the words of the API. */
export function sayError(thrown: unknown): void {
  const error = RecuaError.from(thrown);
  say(`recua: ${error.message}`);
  if (error.code === 'internal_error' && thrown instanceof Error && thrown.stack !== undefined) say(thrown.stack);
}

/**
 * Removes control characters from a text, so that it cannot control the terminal. Line breaks and
 * tabs stay.
 */
export function tame(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '');
}

/**
 * The progress of a load, on stderr. On a terminal one line is rewritten; elsewhere the label is
 * printed once.
 */
export class LoadingLine implements ProgressLine {
  readonly #label: string;
  readonly #quiet: boolean;
  #shown = '';

  constructor(label: string, quiet = false) {
    this.#label = plain(label);
    this.#quiet = quiet;
    if (!quiet && !process.stderr.isTTY) say(`${this.#label} …`);
  }

  show(fraction: number): void {
    if (this.#quiet || !process.stderr.isTTY) return;
    this.#shown = `${this.#label} … ${Math.floor(fraction * 100)}%`;
    standsAtTheEnd(this);
    this.erase();
    this.redraw();
  }

  erase(): void {
    process.stderr.write('\r\x1b[2K');
  }

  redraw(): void {
    process.stderr.write(this.#shown);
  }

  end(): void {
    if (progress !== this) return;
    standsAtTheEnd(undefined);
    this.erase();
  }
}
