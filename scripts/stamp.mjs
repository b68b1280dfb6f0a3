// Stamps: a small JSON file beside a build product that records its inputs. While it matches,
// nothing is rebuilt.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

/** Every file under `folder`, sorted, as relative paths with forward slashes. */
export function filesUnder(folder) {
  const found = [];
  const visit = (at) => {
    for (const entry of readdirSync(at, { withFileTypes: true })) {
      const path = join(at, entry.name);
      if (entry.isDirectory()) visit(path);
      else if (entry.isFile()) found.push(relative(folder, path).replaceAll('\\', '/'));
    }
  };
  visit(folder);
  return found.sort();
}

/** One hash of file names and contents, and any JSON values. */
export function fingerprint(paths, ...values) {
  const hash = createHash('sha256');
  for (const path of paths) hash.update(`${path}\0`).update(readFileSync(path)).update('\0');
  hash.update(JSON.stringify(values));
  return hash.digest('hex');
}

/** A JSON file's value, or undefined if it is missing or truncated. */
export function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

/** Writes to a temporary file and renames it, so that a stamp is complete or absent. */
export function writeJson(path, value) {
  mkdirSync(dirname(path), { recursive: true });
  const partial = `${path}.${process.pid}`;
  writeFileSync(partial, `${JSON.stringify(value, null, 1)}\n`);
  renameSync(partial, path);
}
