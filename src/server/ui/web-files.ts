// The files of web/, read once and cached with their compressed forms. Called by page. Gateway
// process.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { extname, join, relative, sep } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.txt': 'text/plain; charset=utf-8',
  '.webmanifest': 'application/manifest+json',
  '.bcmap': 'application/octet-stream',
};

/** In order of preference. */
export const encodings = ['br', 'gzip'] as const;
export type Encoding = (typeof encodings)[number];

const packers: Record<Encoding, (bytes: Buffer) => Promise<Buffer>> = {
  br: (bytes) => promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }),
  gzip: promisify<Buffer, Buffer>(gzip),
};

/** By encoding and etag: a program may start several servers, and brotli takes a second for all. */
const packed = new Map<string, Promise<Buffer>>();

export class WebFile {
  readonly type: string;
  readonly etag: string;
  readonly bytes: Buffer;

  constructor(type: string, bytes: Buffer) {
    this.type = type;
    this.bytes = bytes;
    this.etag = createHash('sha256').update(bytes).digest('base64url').slice(0, 22);
  }

  /** Images and character maps are already compressed. */
  get packs(): boolean {
    return this.type !== 'image/png' && this.type !== 'application/octet-stream';
  }

  packed(encoding: Encoding): Promise<Buffer> {
    const key = `${encoding} ${this.etag}`;
    const known = packed.get(key) ?? packers[encoding](this.bytes).catch((thrown: unknown) => {
      // The next request tries again: there may only have been too little memory.
      packed.delete(key);
      throw thrown;
    });
    packed.set(key, known);
    return known;
  }
}

/** Keyed by path below the folder, with slashes. Files that are added later are never served. */
export async function readWebFiles(folder: string): Promise<ReadonlyMap<string, WebFile>> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true });
  const files = entries.filter((entry) => entry.isFile() && types[extname(entry.name)] !== undefined);
  return new Map(await Promise.all(files.map(async ({ parentPath, name }) => {
    const path = join(parentPath, name);
    return [relative(folder, path).split(sep).join('/'), new WebFile(types[extname(name)]!, await readFile(path))] as const;
  })));
}
