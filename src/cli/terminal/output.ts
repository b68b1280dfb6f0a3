// Where words go: data to stdout, talk to stderr, neither with escape codes where it is no
// terminal.
import { RecuaError } from '../../errors.js';
import type { LogFields, LogLevel } from './log-line.js';

/**
 * The reader of stdout went away (`recua run … | head`): no error, there is just nobody left to
 * write for.
 */
export class ReaderGone extends Error {}

let guarded = false;

/**
 * Keeps a closed stdout or stderr from ending the process: `print` tells of the one, the other is
 * talk and may be lost.
 */
export function guardOutput(): void {
  if (guarded) return;
  guarded = true;
  process.stdout.on('error', () => { /* print() throws it. */ });
  process.stderr.on('error', () => { /* Nobody listens. */ });
}

/**
 * Data to stdout; resolves when it is handed on, so that a slow reader slows the writer. Throws
 * ReaderGone.
 */
export async function print(text: string): Promise<void> {
  const error = await new Promise<NodeJS.ErrnoException | null | undefined>((resolve) => {
    process.stdout.write(text, resolve);
  });
  if (!error) return;
  if (error.code === 'EPIPE' || error.code === 'ERR_STREAM_DESTROYED') throw new ReaderGone();
  throw new RecuaError('file_unreadable', `stdout cannot be written: ${error.message}`, { cause: error });
}

/** Talk to stderr. It may quote a file or a server, so that it is tamed. */
export function say(text: string): void {
  aboveProgress(() => process.stderr.write(`${tame(text)}\n`));
}

/** A line at the end of the terminal that is rewritten as things go on; one at a time. */
interface ProgressLine {
  erase(): void;
  redraw(): void;
}

let progress: ProgressLine | undefined;

function standsAtTheEnd(line: ProgressLine | undefined): void {
  progress = line;
}

/** Has something written to the terminal without gluing it to a progress line that stands there. */
export function aboveProgress(write: () => void): void {
  progress?.erase();
  write();
  progress?.redraw();
}

const levels = ['debug', 'info', 'warn', 'error', 'silent'] as const;

/** A log that lets through what is at least of `least`; to stderr, or to who else writes it. */
export function makeLog(
  least: LogLevel | 'silent', write: (level: LogLevel, text: string, fields?: LogFields) => void = (level, text) => say(`${level}: ${text.trimEnd()}`),
): (level: LogLevel, text: string, fields?: LogFields) => void {
  return (level, text, fields) => {
    if (levels.indexOf(level) >= levels.indexOf(least)) write(level, text, fields);
  };
}

/**
 * The same for what an engine tells: llama.cpp's own talk about a load is for those who look for a
 * fault. See `engineLogLevel`.
 */
export function engineLog(log: ReturnType<typeof makeLog>): ReturnType<typeof makeLog> {
  return (level, text) => log(level === 'info' ? 'debug' : level, text);
}

/**
 * What `engineLog` of a log of this level lets through, so that an engine process sends no more.
 */
export function engineLogLevel(least: LogLevel | 'silent'): LogLevel {
  if (least === 'silent') return 'error';
  return least === 'info' ? 'warn' : least;
}

/**
 * Errors of an engine's log, held back until it is known whether the failure that follows says the
 * same.
 */
export class HeldErrors {
  #lines: string[] = [];

  /** Below this level nothing is told. */
  readonly logLevel = 'warn';

  readonly log = (level: LogLevel, text: string): void => {
    if (level === 'error') this.#lines.push(text.trimEnd());
    else if (level === 'warn') say(`warn: ${text.trimEnd()}`);
  };

  /** Tells those that `thrown` does not. */
  tell(thrown?: unknown): void {
    const known = thrown instanceof Error ? thrown.message : '';
    for (const line of this.#lines) if (!known.includes(line)) say(`error: ${line}`);
    this.#lines = [];
  }
}

/** What went wrong, as the API says it too. */
export function sayError(thrown: unknown): void {
  const error = RecuaError.from(thrown);
  say(`recua: ${error.message}`);
  if (error.code === 'internal_error' && thrown instanceof Error && thrown.stack !== undefined) say(thrown.stack);
}

/**
 * A model's text for a terminal: without control characters, so that it can't drive it. Line breaks
 * and tabs stay.
 */
export function tame(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '');
}

/**
 * A line on stderr that shows how far the loading is; on a terminal it is rewritten, elsewhere it
 * is silent until the end.
 */
export class LoadingLine implements ProgressLine {
  readonly #label: string;
  readonly #quiet: boolean;
  #shown = '';

  constructor(label: string, quiet = false) {
    this.#label = label;
    this.#quiet = quiet;
    if (!quiet && !process.stderr.isTTY) say(`${label} …`);
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
