// Bounds the copies of a request's texts: each answer is a request of its own to the engine, and
// all answers to a prompt but the first are sent at once. Pure. Called by chat-exchange.
import { RecuaError } from '../../errors.js';
import type { EngineRequest } from './dialect.js';

/** Characters of texts, and bytes of numbers, in all requests of one exchange. */
const mostCopied = 128 * 2 ** 20;

/** @throws RecuaError `invalid_value` */
export function boundCopies(prompts: readonly (readonly EngineRequest[])[]): void {
  const count = prompts.reduce((sum, { length }) => sum + length, 0);
  if (count <= 1) return;
  // What the prompts share is measured once.
  const sizes = new Map<object, number>();
  const copied = prompts.reduce((sum, requests) => sum + requests.length * sizeOf(requests[0], sizes), 0);
  if (copied <= mostCopied) return;
  const mebibytes = (bytes: number): number => Math.ceil(bytes / 2 ** 20);
  const [param, fewer] = prompts.some(({ length }) => length > 1) ? ['n', 'answers'] : ['prompt', 'prompts'];
  const message = `Expected at most ${mebibytes(mostCopied)} MiB of texts for all answers, each of which needs all of the request's, got ${mebibytes(copied)} MiB; ask for fewer ${fewer}.`;
  throw new RecuaError('invalid_value', message, { param });
}

function sizeOf(value: unknown, sizes: Map<object, number>): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 8;
  if (ArrayBuffer.isView(value)) return value.byteLength;
  let size = sizes.get(value);
  if (size === undefined) {
    size = Object.values(value).reduce((sum: number, one) => sum + sizeOf(one, sizes), 0);
    sizes.set(value, size);
  }
  return size;
}
