// POST /v1/files: a form with one file and its purpose. The bytes are streamed to disk, not held in
// memory.
import { createWriteStream, type WriteStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Busboy } from '@fastify/busboy';
import type { Request, Response } from 'express';
import { RecuaError } from '../../errors.js';
import { describe, Fields, wrongType, wrongValue } from '../../request/fields.js';
import { checkUnknown } from '../../request/unknown-fields.js';
import { letSend } from '../body/body-reader.js';
import { keepingError } from '../kept/kept-folder.js';
import type { Owner } from '../kept/owner.js';
import type { Draft, FileObject, FileStore } from './file-store.js';

/** OpenAI's purposes; here only batches use files. */
export const purposes = ['batch', 'assistants', 'fine-tune', 'vision', 'user_data', 'evals'] as const;
const limits = { files: 1, fields: 16, parts: 20, fieldNameSize: 100, fieldSize: 4_096, headerPairs: 100 };
const mostNameLength = 255;
/** Size of a form without its file. */
const mostFrameBytes = 2 ** 20;
export const shortestSeconds = 3_600;
export const longestSeconds = 2_592_000;

export async function upload(
  req: Request,
  res: Response,
  store: FileStore,
  { name: by }: Owner,
  signal: AbortSignal,
): Promise<FileObject & { warnings?: string[] }> {
  const type = req.headers['content-type'] ?? '';
  if (!/^multipart\/form-data\b/i.test(type)) {
    throw new RecuaError(
      'unsupported_media_type',
      `Expected a form with a file (multipart/form-data), got Content-Type ${describe(type)}.`,
    );
  }
  const encoding = req.headers['content-encoding'] ?? 'identity';
  if (encoding.trim().toLowerCase() !== 'identity') {
    throw new RecuaError('unsupported_media_type', `Expected a form that is not compressed, got Content-Encoding ${describe(encoding)}.`);
  }
  const declared = Number(req.headers['content-length'] ?? Infinity);
  const { bytes: mostBytes, release } = await store.room(by, declared);
  let draft: Draft | undefined;
  try {
    draft = await store.draft();
    if (declared !== Infinity && declared > mostBytes + mostFrameBytes) throw tooLarge(mostBytes);
    letSend(req, res);
    const { fields, filename } = await new Form(req, draft.path, mostBytes, signal).read();
    const purpose = fields.word('purpose', purposes);
    if (purpose === undefined) throw wrongType('purpose', `one of ${purposes.map((one) => `"${one}"`).join(', ')}`, undefined);
    if (filename === undefined) throw wrongType('file', 'a file', undefined);
    const expires = readExpiry(fields);
    const warnings = checkUnknown(fields);
    const file = await store.publish(draft, { filename, purpose, by, ...(expires === undefined ? {} : { expires_at: expires }) });
    return warnings.length === 0 ? file : { ...file, warnings };
  } catch (thrown) {
    if (draft) await store.discard(draft);
    throw keepingError(thrown);
  } finally {
    release();
  }
}

type Parser = InstanceType<typeof Busboy>;

class Form {
  readonly #req: Request;
  readonly #path: string;
  readonly #mostBytes: number;
  readonly #signal: AbortSignal;
  readonly #fields: Record<string, string> = {};
  #filename: string | undefined;
  #file: Readable | undefined;
  #sink: WriteStream | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(req: Request, path: string, mostBytes: number, signal: AbortSignal) {
    this.#req = req;
    this.#path = path;
    this.#mostBytes = mostBytes;
    this.#signal = signal;
  }

  async read(): Promise<{ fields: Fields; filename: string | undefined }> {
    const parser = this.#parser();
    try {
      await this.#feed(parser);
      await this.#writing;
    } catch (thrown) {
      // Does not destroy the request, since its client still gets the error.
      this.#req.unpipe(parser);
      parser.destroy();
      this.#file?.destroy(thrown as Error);
      await this.#writing.catch(() => undefined);
      // A stream that fails while its file is being opened still creates the file.
      const sink = this.#sink;
      if (sink && !sink.closed) await new Promise<void>((resolve) => sink.once('close', resolve));
      throw thrown;
    }
    return { fields: Fields.of(this.#fields), filename: this.#filename };
  }

  #parser(): Parser {
    try {
      return new Busboy({ headers: { ...this.#req.headers, 'content-type': this.#req.headers['content-type'] ?? '' }, limits: { ...limits, fileSize: this.#mostBytes } });
    } catch (cause) {
      throw broken(cause);
    }
  }

  #feed(parser: Parser): Promise<void> {
    const req = this.#req;
    return new Promise<void>((resolve, reject) => {
      parser.on('error', (cause: unknown) => reject(broken(cause)));
      parser.on('file', (name, file, filename) => {
        // A skipped file has no reader, so its error would crash the process.
        file.on('error', () => undefined);
        if (name !== 'file' || this.#filename !== undefined) return void file.resume();
        this.#filename = nameOf(filename);
        this.#file = file;
        file.once('limit', () => reject(tooLarge(this.#mostBytes)));
        this.#sink = createWriteStream(this.#path, { flags: 'wx', mode: 0o600 });
        this.#writing = pipeline(file, this.#sink);
        this.#writing.catch(reject);
      });
      parser.on('field', (name, value, _, valueTruncated) => {
        if (valueTruncated) reject(new RecuaError('invalid_value', `Expected at most ${limits.fieldSize} bytes for ${name}, got more.`, { param: name }));
        Object.defineProperty(this.#fields, name, { value, enumerable: true, configurable: true, writable: true });
      });
      const surplus = (): void => reject(new RecuaError('invalid_value', 'Expected a form with one file and its purpose, got more parts.', { param: 'file' }));
      parser.on('partsLimit', surplus).on('filesLimit', surplus).on('fieldsLimit', surplus);
      parser.once('finish', resolve);
      const gone = (): void => {
        // All bytes may have arrived even though the socket closed before they were read.
        if (!req.readableEnded) reject(new RecuaError('cancelled', 'The client went away while its file was being received.'));
      };
      req.once('close', gone).once('error', gone);
      const stopped = (): void => reject(RecuaError.from(this.#signal.reason));
      this.#signal.addEventListener('abort', stopped, { once: true });
      if (this.#signal.aborted) stopped();
      if (req.destroyed) gone();
      req.pipe(parser);
    });
  }
}

function tooLarge(mostBytes: number): RecuaError {
  return new RecuaError('body_too_large', `The file is over the limit of ${mostBytes} bytes.`);
}

function broken(cause: unknown): RecuaError {
  return new RecuaError('invalid_value', `The form cannot be read: ${(cause as Error).message}.`, { cause });
}

/** The last part of the name, kept only as a label. */
function nameOf(given: string | undefined): string {
  const name = (given ?? '').split(/[\\/]/).at(-1)!.replace(/[\u0000-\u001f\u007f]/g, '').slice(0, mostNameLength);
  return name || 'file';
}

function readExpiry(fields: Fields): number | undefined {
  const anchor = fields.string('expires_after[anchor]');
  const given = fields.string('expires_after[seconds]');
  if (anchor === undefined && given === undefined) return undefined;
  if (anchor !== 'created_at') throw wrongValue('expires_after[anchor]', '"created_at"', anchor);
  const seconds = /^\d{1,9}$/.test(given ?? '') ? Number(given) : NaN;
  if (!(seconds >= shortestSeconds && seconds <= longestSeconds)) throw wrongValue('expires_after[seconds]', `an integer from ${shortestSeconds} to ${longestSeconds}`, given);
  return Math.floor(Date.now() / 1_000) + seconds;
}
