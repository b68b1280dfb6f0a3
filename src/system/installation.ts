// What is installed: the folder, the version, and how it was installed. Used wherever a version is
// shown or a repair command is suggested.
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface Installation {
  /** The folder with Recua's package.json. */
  root: string;
  version: string;
  /** The llama.cpp version that this Recua needs, from vendor/llama.cpp.json. */
  llamaCpp: string;
}

/** The installation in a folder. */
function readInstallation(root: string): Installation {
  return { root, version: readField(join(root, 'package.json')), llamaCpp: readField(join(root, 'vendor', 'llama.cpp.json')) };
}

/** The installation that this file belongs to, as it was when the process began. */
export function ownInstallation(): Installation {
  return own;
}

const own = readInstallation(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));

function readField(path: string): string {
  return String((JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>)['version']);
}

/** Whether these name the same llama.cpp: a build says `0.5.0-dev` for the tag `v0.5.0`. */
export function sameVersion(a: string, b: string): boolean {
  const plain = (version: string) => version.replace(/^v|-dev$/g, '');
  return plain(a) === plain(b);
}

/** Whether this is a clone of the repository, which can build everything. */
export function isClone({ root }: Installation): boolean {
  return existsSync(join(root, 'CMakeLists.txt'));
}

/** The command that installs a package where this installation finds it. */
export function installCommand({ root }: Installation, name: string): string {
  const inside = `${sep}node_modules${sep}`;
  if (root.includes(`${sep}.pnpm${sep}`)) return `pnpm add ${root.includes(`${sep}global${sep}`) ? '-g ' : ''}${name}`;
  // A global prefix has lib/node_modules, on Windows npm\node_modules; a project has a package.json
  // beside node_modules.
  const at = root.lastIndexOf(inside);
  const global = at < 0 || (!existsSync(join(root.slice(0, at), 'package.json')) && ['lib', 'npm'].includes(basename(root.slice(0, at))));
  return `npm install ${global ? '-g ' : ''}${name}`;
}
