// The log of a background server: a file of bounded size with a few rotated copies, readable only
// by its owner. Used by `recua api --log-file`, and so by every managed server. Gateway process.
import { basename, dirname, resolve } from 'node:path';
import { createStream } from 'rotating-file-stream';
import type { RotatingFileStream } from 'rotating-file-stream';
import { jsonLine, textLines, type LogFields, type LogFormat, type LogLevel } from '../terminal/log-line.js';
import { createFolderSync } from '../../system/create-folder.js';

export interface LogFileLimits {
  /** A file that has grown to this size is rotated. */
  sizeBytes: number;
  /** Rotated files kept besides the current one. */
  kept: number;
  /** If more than this waits to be written, the disk is too slow: lines are dropped and counted. */
  waitingBytes: number;
  /** Delay after an error before the file is opened again. */
  retryMs: number;
}

const logFileLimits: Readonly<LogFileLimits> = { sizeBytes: 10 * 1024 * 1024, kept: 4, waitingBytes: 4 * 1024 * 1024, retryMs: 5_000 };

/** The files of a log, newest first: the current one, then the rotated ones. */
export function logFiles(path: string, kept = logFileLimits.kept): string[] {
  return [path, ...Array.from({ length: kept }, (_, at) => `${path}.${at + 1}`)];
}

export class LogFile {
  readonly #path: string;
  readonly #format: LogFormat;
  readonly #limits: LogFileLimits;
  readonly #trouble: (message: string) => void;
  #stream: RotatingFileStream | undefined;
  #lost = 0;
  #retryAtMs = 0;

  /**
   * Calls `trouble` each time the file becomes unwritable. Throws if its folder cannot be created.
   */
  constructor(path: string, trouble: (message: string) => void, limits: Partial<LogFileLimits> = {}, format: LogFormat = 'text') {
    this.#path = resolve(path);
    this.#format = format;
    this.#trouble = trouble;
    this.#limits = { ...logFileLimits, ...limits };
    createFolderSync(dirname(this.#path));
    this.#stream = this.#open();
  }

  write(level: LogLevel, text: string, fields?: LogFields): void {
    const stream = this.#ready();
    if (!stream) {
      this.#lost++;
      return;
    }
    if (this.#lost > 0) this.#put(stream, 'warn', `${this.#lost} lines are missing here: the log could not be written`);
    this.#lost = 0;
    this.#put(stream, level, text, fields);
  }

  /** Resolves when everything written is in the file. */
  async close(): Promise<void> {
    const stream = this.#stream;
    this.#stream = undefined;
    this.#retryAtMs = Infinity;
    if (!stream || stream.destroyed) return;
    await new Promise<void>((done) => {
      stream.once('close', done);
      stream.end();
    });
  }

  #put(stream: RotatingFileStream, level: LogLevel, text: string, fields?: LogFields): void {
    const lines = this.#format === 'json' ? [jsonLine(level, text, fields)] : textLines(level, text);
    for (const one of lines) stream.write(`${one}\n`);
  }

  #ready(): RotatingFileStream | undefined {
    if (!this.#stream && performance.now() >= this.#retryAtMs) this.#stream = this.#open();
    return this.#stream && this.#stream.writableLength < this.#limits.waitingBytes ? this.#stream : undefined;
  }

  #open(): RotatingFileStream {
    const name = basename(this.#path);
    const stream = createStream((index: number | Date | null) => (typeof index === 'number' ? `${name}.${index}` : name), {
      path: dirname(this.#path), size: `${this.#limits.sizeBytes}B`, rotate: this.#limits.kept, mode: 0o600,
    });
    stream.on('error', (cause: Error) => {
      if (this.#stream !== stream) return;
      this.#stream = undefined;
      this.#retryAtMs = performance.now() + this.#limits.retryMs;
      this.#lost++;
      this.#trouble(`The log file ${this.#path} cannot be written: ${cause.message}.`);
    });
    return stream;
  }
}
