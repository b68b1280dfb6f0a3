// Reads a Linux library's requirements from its ELF dynamic section. Only 64-bit little-endian, the
// only kind that Recua builds.
import { readFileSync } from 'node:fs';

const tags = { needed: 1, strtab: 5, soname: 14, rpath: 15, runpath: 29, verneed: 0x6ffffffe, verneednum: 0x6fffffff };

/**
 * @returns {{ soname?: string, needed: string[], rpath: string[], versions: { library: string,
 * version: string }[], stripped: boolean }}
 */
export function readElf(path) {
  const bytes = readFileSync(path);
  if (bytes.readUInt32BE(0) !== 0x7f454c46 || bytes[4] !== 2 || bytes[5] !== 1) throw new Error(`${path} is no 64-bit little-endian ELF file`);
  const u64 = (at) => Number(bytes.readBigUInt64LE(at));
  const text = (at) => bytes.toString('latin1', at, bytes.indexOf(0, at));

  const segments = Array.from({ length: bytes.readUInt16LE(56) }, (_, i) => {
    const at = u64(32) + i * bytes.readUInt16LE(54);
    return { type: bytes.readUInt32LE(at), offset: u64(at + 8), address: u64(at + 16), size: u64(at + 32) };
  });
  const offsetOf = (address) => {
    const segment = segments.find(({ type, address: from, size }) => type === 1 && address >= from && address < from + size);
    return address - segment.address + segment.offset;
  };

  const entries = [];
  const dynamic = segments.find(({ type }) => type === 2);
  // A program without library dependencies has none.
  for (let at = dynamic?.offset; at !== undefined && u64(at) !== 0; at += 16) entries.push([u64(at), u64(at + 8)]);
  const first = (tag) => entries.find(([found]) => found === tag)?.[1];
  const strings = dynamic === undefined ? 0 : offsetOf(first(tags.strtab));
  const named = (tag) => entries.filter(([found]) => found === tag).map(([, value]) => text(strings + value));

  const versions = [];
  let at = first(tags.verneed) === undefined ? 0 : offsetOf(first(tags.verneed));
  for (let left = first(tags.verneednum) ?? 0; left > 0; left--) {
    const library = text(strings + bytes.readUInt32LE(at + 4));
    let aux = at + bytes.readUInt32LE(at + 8);
    for (let count = bytes.readUInt16LE(at + 2); count > 0; count--) {
      versions.push({ library, version: text(strings + bytes.readUInt32LE(aux + 8)) });
      aux += bytes.readUInt32LE(aux + 12);
    }
    at += bytes.readUInt32LE(at + 12);
  }

  const symbolTable = 2;
  const sections = Array.from({ length: bytes.readUInt16LE(60) }, (_, i) => bytes.readUInt32LE(u64(40) + i * bytes.readUInt16LE(58) + 4));
  return {
    soname: named(tags.soname)[0],
    needed: named(tags.needed),
    rpath: [...named(tags.rpath), ...named(tags.runpath)].flatMap((path) => path.split(':')),
    versions,
    stripped: !sections.includes(symbolTable),
  };
}

/** Compares "2.28" and "2.3.4" as versions. */
export function compareVersions(a, b) {
  const [left, right] = [a, b].map((text) => text.split('.').map(Number));
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** The highest required version per name, such as { GLIBC: '2.17', GCC: '3.0' }. */
export function highestVersions(elves) {
  const highest = {};
  for (const { version } of elves.flatMap(({ versions }) => versions)) {
    const match = /^([A-Z]+)_([\d.]+)$/.exec(version);
    if (match && (highest[match[1]] === undefined || compareVersions(match[2], highest[match[1]]) > 0)) highest[match[1]] = match[2];
  }
  return highest;
}
