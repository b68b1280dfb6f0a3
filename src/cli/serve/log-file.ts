// The log of a background server: a file of bounded size with a few rotated copies, readable only
// by its owner. Used by `recua api --log-file`, and so by every managed server. Gateway process.
import { closeSync, lstatSync, openSync, readSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { createStream } from 'rotating-file-stream';
import type { RotatingFileStream } from 'rotating-file-stream';
import { jsonLine, lineStart, textLines, type LogFields, type LogFormat, type LogLevel } from '../terminal/log-line.js';
import { RecuaError } from '../../errors.js';
import { createFolderSync } from '../../system/create-folder.js';
import { servePlaces } from './state-file.js';

export interface LogFileLimits {
  /** A file that has grown to this size is rotated. */
  sizeBytes: number;
  /** Rotated files kept besides the current one. */
  kept: number;
  /** If more than this waits to be written, the disk is too slow: lines are dropped and counted. */
  waitingBytes: number;
  /** Delay after an error before the file is opened again. */
  retryMs: number;
  /** How often to look whether the file was moved or removed. */
  lookMs: number;
}

const logFileLimits: Readonly<LogFileLimits> = {
  sizeBytes: 10 * 1024 * 1024,
  kept: 4,
  waitingBytes: 4 * 1024 * 1024,
  retryMs: 5_000,
  lookMs: 1_000,
};

/** The files of a log, newest first: the current one, then the rotated ones. */
export function logFiles(path: string, kept = logFileLimits.kept): string[] {
  return [path, ...Array.from({ length: kept }, (_, at) => `${path}.${at + 1}`)];
}

/**
 * Throws if there can be no log at this path. A disk that is full now may have room later.
 * @throws RecuaError `file_unreadable`
 */
export function checkLogFile(path: string, kept = logFileLimits.kept): void {
  try {
    createFolderSync(dirname(path));
    const stat = statSync(path, { throwIfNoEntry: false });
    if (stat?.isDirectory()) throw new Error('it is a folder');
    // Opening a pipe would wait for its reader.
    if (stat && !stat.isFile()) return;
    if (stat && !isOwn(path)) throw new Error('it is a file of another kind');
    checkRotated(path, kept);
    closeSync(openSync(path, 'a', 0o600));
  } catch (cause) {
    const { code = '', message } = cause as NodeJS.ErrnoException;
    if (passing.has(code)) return;
    throw new RecuaError('file_unreadable', `The log file ${path} cannot be written: ${message}.`, { cause });
  }
}

/** Throws if rotation would rename or replace a file that is no log. */
function checkRotated(path: string, kept: number): void {
  for (const name of logFiles(path, kept).slice(1)) {
    const stat = lstatSync(name, { throwIfNoEntry: false });
    if (stat && !(stat.isFile() && isOwn(name))) throw new Error(`rotation would replace ${name}, which is no log of Recua; move it away, or choose another name for the log`);
  }
}

/** Whether it is an empty file, or its first line is a log's. */
function isOwn(path: string): boolean {
  if (dirname(path) === servePlaces().folder) return true;
  const file = openSync(path, 'r');
  try {
    const start = Buffer.alloc(80);
    const text = start.toString('latin1', 0, readSync(file, start, 0, start.length, 0));
    return text === '' || lineStart.test(text);
  } finally {
    closeSync(file);
  }
}

const passing: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EMFILE', 'ENFILE', 'EIO']);

export class LogFile {
  readonly #path: string;
  readonly #format: LogFormat;
  readonly #limits: LogFileLimits;
  readonly #trouble: (message: string) => void;
  #stream: RotatingFileStream | undefined;
  /** The file ends in the middle of a line: a disk was full, or a server was killed. */
  #isCut = false;
  #lost = 0;
  #retryAtMs = 0;
  /** Of the open file; undefined while it is opened or rotated. */
  #inode: number | undefined;
  #lookAtMs = 0;
  /** The last trouble told; empty once a line is written again. */
  #told = '';

  /**
   * Calls `trouble` when the file becomes unwritable. Throws as `checkLogFile`.
   */
  constructor(path: string, trouble: (message: string) => void, limits: Partial<LogFileLimits> = {}, format: LogFormat = 'text') {
    this.#path = realPathOf(resolve(path));
    this.#format = format;
    this.#trouble = trouble;
    this.#limits = { ...logFileLimits, ...limits };
    checkLogFile(this.#path, this.#limits.kept);
    this.#stream = this.#open();
  }

  write(level: LogLevel, text: string, fields?: LogFields): void {
    const stream = this.#ready();
    if (!stream) {
      this.#lost++;
      return;
    }
    const lost = this.#lost;
    this.#lost = 0;
    if (lost > 0) this.#put(stream, this.#linesOf('warn', `${lost} lines are missing here: the log could not be written`), lost);
    this.#put(stream, this.#linesOf(level, text, fields));
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

  #linesOf(level: LogLevel, text: string, fields?: LogFields): string[] {
    return this.#format === 'json' ? [jsonLine(level, text, fields)] : textLines(level, text);
  }

  /** If a line cannot be written, `counts` lines are lost. */
  #put(stream: RotatingFileStream, lines: readonly string[], counts = 1): void {
    for (const one of lines) {
      stream.write(`${this.#isCut ? '\n' : ''}${one}\n`, (cause) => {
        if (cause) this.#lost += counts;
        else this.#told = '';
      });
      this.#isCut = false;
    }
  }

  #ready(): RotatingFileStream | undefined {
    if (this.#stream && this.#isAway()) {
      this.#stream.end();
      this.#stream = this.#open();
    }
    if (!this.#stream && performance.now() >= this.#retryAtMs) this.#stream = this.#open();
    return this.#stream && this.#stream.writableLength < this.#limits.waitingBytes ? this.#stream : undefined;
  }

  /** Whether the open file was moved or removed, as by logrotate. */
  #isAway(): boolean {
    if (this.#inode === undefined || performance.now() < this.#lookAtMs) return false;
    this.#lookAtMs = performance.now() + this.#limits.lookMs;
    const now = inodeOf(this.#path);
    return now !== undefined && now !== this.#inode;
  }

  #open(): RotatingFileStream {
    const name = basename(this.#path);
    this.#isCut = endsInLine(this.#path);
    const { sizeBytes, kept } = this.#limits;
    const nameOf = (index: number | Date | null): string => {
      // A rotation begins with the last name.
      if (index === kept) checkRotated(this.#path, kept);
      return typeof index === 'number' ? `${name}.${index}` : name;
    };
    const stream = createStream(nameOf, { path: dirname(this.#path), size: `${sizeBytes}B`, rotate: kept, mode: 0o600 });
    // One line at a time: otherwise lines in the file would count as lost if a later one fails.
    Object.assign(stream, { _writev: undefined });
    this.#inode = undefined;
    stream.on('open', () => {
      if (this.#stream === stream) this.#inode = inodeOf(this.#path);
    });
    stream.on('rotation', () => {
      if (this.#stream === stream) this.#inode = undefined;
    });
    stream.on('error', (cause: Error) => {
      if (this.#stream !== stream) return;
      this.#stream = undefined;
      this.#retryAtMs = performance.now() + this.#limits.retryMs;
      if (this.#told === cause.message) return;
      this.#told = cause.message;
      this.#trouble(`The log file ${this.#path} cannot be written: ${cause.message}.`);
    });
    return stream;
  }
}

/** Rotation must rename the log, not a link to it. */
function realPathOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** 0 if there is no file; undefined if that cannot be told. */
function inodeOf(path: string): number | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false })?.ino ?? 0;
  } catch {
    return undefined;
  }
}

/** Whether the file's last line has no end. */
function endsInLine(path: string): boolean {
  try {
    const found = statSync(path);
    if (!found.isFile() || found.size === 0) return false;
    const file = openSync(path, 'r');
    try {
      const last = Buffer.alloc(1);
      return readSync(file, last, 0, 1, found.size - 1) === 1 && last[0] !== 0x0a;
    } finally {
      closeSync(file);
    }
  } catch {
    return false;
  }
}
