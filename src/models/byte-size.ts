// File sizes and download rates as text. Pure; used by downloads and the command line.
import { RecuaError } from '../errors.js';

const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];

/** `2.29 MiB`: three significant digits. */
export function sizeText(bytes: number): string {
  let size = bytes;
  let unit = 0;
  for (; size >= 1024 && unit < units.length - 1; unit++) size /= 1024;
  return unit === 0 ? `${bytes} bytes` : `${size.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0)} ${units[unit]}`;
}

const powers: Readonly<Record<string, number>> = { '': 0, k: 1, m: 2, g: 3, t: 4 };

/**
 * Parses a rate such as `500K`, `2M`, `1.5MiB` or `1MB/s` into bytes per second. K, M and G are
 * powers of 1024, as in curl and wget; only an explicit `kB`, `MB` or `GB` is a power of 1000.
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
