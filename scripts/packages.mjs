// Installs node_modules from package-lock.json with `npm ci`, only if they differ.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { place, root } from './place.mjs';
import { npm, run } from './process.mjs';
import { readJson } from './stamp.mjs';

/**
 * True if node_modules does not match package-lock.json. npm writes node_modules/.package-lock.json
 * last, so an incomplete folder has none or an old one; each package's folder is checked too.
 */
export function packagesPending() {
  const wanted = JSON.parse(readFileSync(place.packageLock, 'utf8')).packages;
  const installed = readJson(join(place.nodeModules, '.package-lock.json'))?.packages;
  if (!installed) return true;
  return Object.entries(wanted).some(([path, entry]) => {
    if (path === '') return false;
    const there = installed[path];
    if (!there) return !(entry.optional || entry.devOptional);
    return there.version !== entry.version || there.integrity !== entry.integrity || !existsSync(join(root, path, 'package.json'));
  });
}

export async function installPackages() {
  // Include dev dependencies, which hold the build tools, even if NODE_ENV is production.
  const { command, args, shell } = npm(['ci', '--include=dev', '--ignore-scripts', '--no-audit', '--no-fund']);
  await run(command, args, { shell });
}
