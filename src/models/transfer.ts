// Moves the missing chunks of a file from the hub into its partial file, over several connections where the host does ranges and
// in one stream where it does not. Used by download.ts.
import { createHash } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import type { PartialFile } from './partial-file.js';
import type { RateLimit } from './rate-limit.js';
import { NoRanges } from './remote-file.js';
import type { RemoteFile } from './remote-file.js';

export interface TransferOptions {
  connections: number;
  limit?: RateLimit | undefined;
  signal: AbortSignal;
  /** Bytes that arrived, negative where some have to come again. */
  onBytes: (bytes: number) => void;
}

/** Resolves when no chunk is missing. */
export async function transfer(remote: RemoteFile, partial: PartialFile, options: TransferOptions): Promise<void> {
  try {
    if (remote.ranges) {
      await inParallel(remote, partial, options);
      return;
    }
  } catch (thrown) {
    if (!(thrown instanceof NoRanges)) throw thrown;
  }
  await inOneStream(remote, partial, options);
}

async function inParallel(remote: RemoteFile, partial: PartialFile, options: TransferOptions): Promise<void> {
  const queue = partial.missing();
  // The first failure of one connection ends the others too.
  const failing = new AbortController();
  const signal = AbortSignal.any([options.signal, failing.signal]);
  // Each connection listens; Node takes more than ten for a leak.
  setMaxListeners(0, signal);
  const work = async () => {
    for (let index = queue.shift(); index !== undefined; index = queue.shift()) {
      await fetchChunk(remote, partial, index, { ...options, signal });
    }
  };
  const workers = Array.from({ length: Math.min(options.connections, queue.length) }, async () => {
    try {
      await work();
    } catch (thrown) {
      failing.abort(thrown);
    }
  });
  await Promise.all(workers);
  // The reason of either abort: the caller's or the first failure.
  signal.throwIfAborted();
}

async function fetchChunk(remote: RemoteFile, partial: PartialFile, index: number, { limit, signal, onBytes }: TransferOptions): Promise<void> {
  const start = partial.startOf(index);
  const hash = createHash('sha256');
  let at = start;
  try {
    for await (const piece of remote.read(start, start + partial.lengthOf(index), signal)) {
      hash.update(piece);
      await partial.write(piece, at);
      at += piece.length;
      onBytes(piece.length);
      await limit?.pass(piece.length, signal);
    }
    await partial.finish(index, hash.digest('hex'));
  } catch (thrown) {
    onBytes(start - at);
    throw thrown;
  }
}

/** Reads from the first missing chunk to the last; what is there already in between is let pass. */
async function inOneStream(remote: RemoteFile, partial: PartialFile, { limit, signal, onBytes }: TransferOptions): Promise<void> {
  const missing = new Set(partial.missing());
  const order = [...missing];
  const [first, last] = [order[0], order.at(-1)];
  if (first === undefined || last === undefined) return;
  let index = first;
  let hash = createHash('sha256');
  let at = partial.startOf(first);
  let chunkEnd = at + partial.lengthOf(index);
  for await (const piece of remote.read(at, partial.startOf(last) + partial.lengthOf(last), signal)) {
    for (let used = 0; used < piece.length;) {
      const part = piece.subarray(used, used + chunkEnd - at);
      used += part.length;
      if (missing.has(index)) {
        hash.update(part);
        await partial.write(part, at);
        onBytes(part.length);
      }
      at += part.length;
      if (at < chunkEnd) continue;
      if (missing.has(index)) await partial.finish(index, hash.digest('hex'));
      hash = createHash('sha256');
      index++;
      chunkEnd = at + partial.lengthOf(index);
    }
    await limit?.pass(piece.length, signal);
  }
}
