// Stamps: a small JSON file beside what was made, that says from what. While it fits, nothing is
// made again.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

/** Every file under `folder`, sorted, as paths relative to it with forward slashes. */
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

/** One hash of names and contents: paths of files, and any JSON values beside them. */
export function fingerprint(paths, ...values) {
  const hash = createHash('sha256');
  for (const path of paths) hash.update(`${path}\0`).update(readFileSync(path)).update('\0');
  hash.update(JSON.stringify(values));
  return hash.digest('hex');
}

/** A JSON file's value, or undefined where it is missing or cut off. */
export function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

/** Written beside and renamed, so that a stamp is whole or not there. */
export function writeJson(path, value) {
  mkdirSync(dirname(path), { recursive: true });
  const partial = `${path}.${process.pid}`;
  writeFileSync(partial, `${JSON.stringify(value, null, 1)}\n`);
  renameSync(partial, path);
}
