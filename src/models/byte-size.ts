// Sizes of files and speeds of downloads, as people read and write them. Pure; used by downloads
// and the command line.
import { RecuaError } from '../errors.js';

const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];

/** `2.29 MiB`; three significant digits are as much as anybody reads. */
export function sizeText(bytes: number): string {
  let size = bytes;
  let unit = 0;
  for (; size >= 1024 && unit < units.length - 1; unit++) size /= 1024;
  return unit === 0 ? `${bytes} bytes` : `${size.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0)} ${units[unit]}`;
}

const powers: Readonly<Record<string, number>> = { '': 0, k: 1, m: 2, g: 3, t: 4 };

/**
 * Bytes per second of `500K`, `2M`, `1.5MiB`, `1MB/s`. K, M and G are powers of 1024, as curl and
 * wget have them; only an explicit `kB`, `MB`, `GB` is one of 1000.
 */
export function readRate(text: string): number {
  if (/^\s*0\s*$/.test(text)) return 0;
  const match = /^\s*(\d+(?:\.\d+)?|\.\d+)\s*([kmgt]?)(i?b|)(?:\/s|ps)?\s*$/i.exec(text);
  const base = match?.[3]?.toLowerCase() === 'b' ? 1000 : 1024;
  const rate = match ? Math.floor(Number(match[1]) * base ** powers[match[2]!.toLowerCase()]!) : 0;
  if (!match || rate < 1 || !Number.isSafeInteger(rate)) {
    throw new RecuaError('invalid_usage', `Expected bytes per second like 500K, 2M or 1.5MiB for a rate, got ${JSON.stringify(text.slice(0, 60))}.`);
  }
  return rate;
}
