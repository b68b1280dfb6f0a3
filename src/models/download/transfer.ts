// Moves a file's missing chunks from the hub into its partial file: over several connections if the
// host supports ranges, else in one stream. Used by download.ts.
import { setMaxListeners } from 'node:events';
import type { PartialFile } from './partial-file.js';
import type { RateLimit } from './rate-limit.js';
import { NoRanges } from '../hub/remote-file.js';
import type { RemoteFile } from '../hub/remote-file.js';

export interface TransferOptions {
  connections: number;
  limit?: RateLimit | undefined;
  signal: AbortSignal;
  /** Called with the bytes that arrived and were written. */
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
  // The first failure of one connection also ends the others.
  const failing = new AbortController();
  const signal = AbortSignal.any([options.signal, failing.signal]);
  // Each connection adds a listener; Node reports more than ten as a leak.
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
  // The reason of either abort: the caller's, or the first failure.
  signal.throwIfAborted();
}

async function fetchChunk(
  remote: RemoteFile,
  partial: PartialFile,
  index: number,
  { limit, signal, onBytes }: TransferOptions,
): Promise<void> {
  for await (const piece of remote.read(partial.nextOf(index), partial.endOf(index), signal)) {
    await partial.append(index, piece);
    onBytes(piece.length);
    await limit?.pass(piece.length, signal);
  }
}

/**
 * Reads from the first missing byte to the end of the last missing chunk, skipping bytes that are
 * already present.
 */
async function inOneStream(remote: RemoteFile, partial: PartialFile, { limit, signal, onBytes }: TransferOptions): Promise<void> {
  const missing = partial.missing();
  const last = missing.at(-1);
  let index = missing.shift();
  if (index === undefined || last === undefined) return;
  let at = partial.nextOf(index);
  for await (const piece of remote.read(at, partial.endOf(last), signal)) {
    const end = at + piece.length;
    while (at < end && index !== undefined) {
      const from = Math.max(at, partial.nextOf(index));
      const to = Math.min(end, partial.endOf(index));
      if (from < to) {
        await partial.append(index, piece.subarray(piece.length - (end - from), piece.length - (end - to)));
        onBytes(to - from);
      }
      at = Math.min(end, partial.endOf(index));
      if (at === partial.endOf(index)) index = missing.shift();
    }
    at = end;
    await limit?.pass(piece.length, signal);
  }
}
