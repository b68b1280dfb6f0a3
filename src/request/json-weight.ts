// What JSON from a client costs to parse, known before it is parsed: V8 needs over a gigabyte to
// refuse 32 MiB of "[". Pure.
import { RecuaError } from '../errors.js';

/**
 * Memory for an object or array, and for a field of an object, in addition to its text. V8 takes
 * 67 bytes for {}, and some 200 more for its first field, if that has a number for a name or
 * another name in each object.
 */
const bytesPerContainer = 96;
const bytesPerField = 200;
/** For an entry of an array, and for a string: short ones take more than their text. */
const bytesPerEntry = 16;
const bytesPerString = 24;

/**
 * Nesting of objects and arrays. JSON schemas, the deepest JSON that clients send, stay under 30.
 */
const maxDepth = 100;
/**
 * Total objects and arrays. 2,048 token arrays, or 10,000 messages of several parts, stay far under
 * this.
 */
const maxContainers = 200_000;
/**
 * Total fields of objects. The largest bodies have a bias for each token of a vocabulary, of up to
 * 262,144.
 */
const maxFields = 300_000;
/**
 * Total entries of arrays and objects: token arrays have the most. V8 parses as many numbers in 0.3
 * seconds, and nothing else runs meanwhile.
 */
const maxEntries = 4_000_000;
/** Total strings, with the names of fields. V8 needs five times as long for one as for a number. */
const maxStrings = 600_000;

/**
 * Memory that the values of this JSON take in addition to its text. Throws on bytes that would
 * cost more to parse than any real request. Byte-wise scanning is sound, since all other bytes of
 * UTF-8 are over 0x7f. `what` begins the errors.
 */
export function weighJson(bytes: Uint8Array, what: string): number {
  const [quote, backslash, colon, comma] = [0x22, 0x5c, 0x3a, 0x2c];
  let depth = 0;
  let containers = 0;
  let fields = 0;
  let entries = 0;
  let strings = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === quote) {
      if (++strings > maxStrings) throw tooMany(what, maxStrings, 'strings');
      for (at++; at < bytes.length && bytes[at] !== quote; at++) if (bytes[at] === backslash) at++;
    } else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > maxDepth) throw new RecuaError('invalid_json', `${what} is nested over ${maxDepth} levels deep.`);
      if (++containers > maxContainers) throw tooMany(what, maxContainers, 'objects and arrays');
    } else if (byte === 0x5d || byte === 0x7d) {
      depth--;
    } else if (byte === comma) {
      if (++entries > maxEntries) throw tooMany(what, maxEntries, 'values');
    } else if (byte === colon && ++fields > maxFields) {
      throw tooMany(what, maxFields, 'fields');
    }
  }
  return containers * bytesPerContainer + fields * bytesPerField + entries * bytesPerEntry + strings * bytesPerString;
}

function tooMany(what: string, most: number, of: string): RecuaError {
  return new RecuaError('invalid_json', `${what} has over ${most} ${of}; send it in parts.`);
}
