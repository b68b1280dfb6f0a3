// Paths of a checkout, and the llama.cpp pin. Plain Node: the scripts run before any package is
// installed.
import { readFileSync, realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The repository's folder. */
export const root = fileURLToPath(new URL('..', import.meta.url)).replace(/[/\\]$/, '');

export const place = {
  packageLock: join(root, 'package-lock.json'),
  nodeModules: join(root, 'node_modules'),
  vendor: join(root, 'vendor', 'llama.cpp'),
  /** Incomplete vendor trees; git-ignored, safe to delete. */
  vendorPartial: join(root, 'vendor', 'llama.cpp.partial'),
  pin: join(root, 'vendor', 'llama.cpp.json'),
  native: join(root, 'native'),
  cmake: join(root, 'cmake'),
  build: join(root, 'build'),
  addon: join(root, 'build', 'Release', 'recua.node'),
  /**
   * The prebuilt packages: their table, their builds (one folder each), and the resulting archives.
   */
  targets: join(root, 'npm', 'targets.json'),
  buildPack: join(root, 'build-pack'),
  packed: join(root, 'npm', 'dist'),
  source: join(root, 'src'),
  web: join(root, 'web'),
  dist: join(root, 'dist'),
  distTest: join(root, 'dist-test'),
};

/** The pinned llama.cpp: `{ version, tree, sources }`. */
export function readPin() {
  return JSON.parse(readFileSync(place.pin, 'utf8'));
}

/** The user's own llama.cpp checkout, or undefined. Relative to the current folder. */
export function ownLlamaCpp() {
  const given = process.env.RECUA_LLAMA_CPP;
  return given ? resolve(process.env.INIT_CWD ?? process.cwd(), given) : undefined;
}

/** True if the module at `url` is the program, not imported by another. */
export function isProgram(url) {
  return process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(url);
}
