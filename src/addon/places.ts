// Places of native code: the variable RECUA_ADDON, a clone's build, and the packages
// `@recua/<platform>-<arch>…` that Node would find from Recua's own location. Only looks for files;
// load.ts and backends.ts load them.
import { existsSync, readFileSync, readdirSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { isClone } from '../system/installation.js';
import type { Installation } from '../system/installation.js';

const scope = '@recua';
const addonFile = 'recua.node';

/** A package with native code in its folder `bin`. */
export interface NativePackage {
  name: string;
  folder: string;
  version: string;
  /** 'cpu': contains the addon itself; any other: contains that backend's library. */
  backend: string;
  /** The oldest glibc it runs with; '' if not stated. */
  glibc: string;
  /** Why it does not fit this Recua; '' if it does. */
  refusal: string;
}

/** A file that may be the addon. */
export interface AddonPlace {
  source: 'RECUA_ADDON' | 'build' | 'package';
  /** For messages: the path, or the package's name and folder. */
  name: string;
  path: string;
  /** Why it is not even tried; '' if it is. */
  refusal: string;
}

export interface Target {
  platform: string;
  arch: string;
}

export function baseName({ platform, arch }: Target): string {
  return `${scope}/${platform}-${arch}`;
}

/** In the order in which they are tried. If RECUA_ADDON is set, its file is the only place. */
export function addonPlaces(
  installation: Installation,
  packages: readonly NativePackage[],
  environment: Readonly<Record<string, string | undefined>>,
): AddonPlace[] {
  const given = environment['RECUA_ADDON'];
  if (given) return [place('RECUA_ADDON', resolve(given))];
  const [release, debug] = ['Release', 'Debug'].map((kind) => place('build', join(installation.root, 'build', kind, addonFile))) as [
    AddonPlace,
    AddonPlace,
  ];
  // A debug build is rare, so it is listed only if it exists.
  const builds = isClone(installation) ? [release, ...(debug.refusal === '' ? [debug] : [])] : [];
  return [
    ...builds,
    ...packages
      .filter(({ backend }) => backend === 'cpu')
      .map((one): AddonPlace => {
        const path = join(one.folder, 'bin', addonFile);
        return { source: 'package', name: `${one.name} in ${one.folder}`, path, refusal: one.refusal || missing(path) };
      }),
  ];
}

function place(source: AddonPlace['source'], path: string): AddonPlace {
  return { source, name: path, path, refusal: missing(path) };
}

function missing(path: string): string {
  return existsSync(path) ? '' : 'there is no such file';
}

/**
 * The folders in which Node would look for a package that Recua imports, nearest first. The current
 * directory is not among them.
 */
export function packageFolders({ root }: Installation): string[] {
  const folders: string[] = [];
  for (let at = root; ; at = dirname(at)) {
    if (basename(at) !== 'node_modules') folders.push(join(at, 'node_modules'));
    if (dirname(at) === at) return folders;
  }
}

/**
 * The real folders of Recua's own packages that are links, with the real places of native files: a
 * package manager may keep them in a store far from Recua.
 */
export function linkedFolders(installation: Installation): string[] {
  const { dependencies = {} } = JSON.parse(readFileSync(join(installation.root, 'package.json'), 'utf8')) as { dependencies?: object };
  const targets = packageFolders(installation).filter((folder) => existsSync(folder)).flatMap((folder) => {
    const native = entriesOf(join(folder, scope)).map((entry) => join(folder, scope, entry));
    return [...Object.keys(dependencies).map((name) => join(folder, name)), ...native, ...native.map((one) => join(one, 'bin'))];
  });
  return targets.flatMap((path) => {
    try {
      const real = realpathSync(path);
      return real === path ? [] : [real];
    } catch {
      return [];
    }
  });
}

/** The native packages for this machine; of each name, the nearest usable one. */
export function findPackages(installation: Installation, target: Target): NativePackage[] {
  const found = new Map<string, NativePackage>();
  const base = baseName(target).slice(scope.length + 1);
  for (const folder of packageFolders(installation)) {
    for (const entry of entriesOf(join(folder, scope))) {
      if (entry !== base && !entry.startsWith(`${base}-`)) continue;
      const one = readPackage(`${scope}/${entry}`, join(folder, scope, entry), installation);
      const known = found.get(one.name);
      if (!known || (known.refusal !== '' && one.refusal === '')) found.set(one.name, one);
    }
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Installed native packages for other machines: node_modules may have been copied from one. */
export function strangePackages(installation: Installation, target: Target): string[] {
  const base = baseName(target);
  const all = packageFolders(installation).flatMap((folder) => entriesOf(join(folder, scope)).map((entry) => `${scope}/${entry}`));
  return [...new Set(all)].filter((name) => /-(x64|arm64|ia32|arm)\b/.test(name) && name !== base && !name.startsWith(`${base}-`)).sort();
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}

function readPackage(name: string, folder: string, { version: wanted, llamaCpp: pin }: Installation): NativePackage {
  const unread = { name, folder, version: '', backend: name.split('-').slice(2).join('-') || 'cpu', glibc: '' };
  try {
    const real = realpathSync(folder);
    const content = JSON.parse(readFileSync(join(real, 'package.json'), 'utf8')) as { version?: unknown; recua?: Record<string, unknown> };
    const text = (value: unknown, otherwise = '') => (typeof value === 'string' ? value : otherwise);
    const version = text(content.version);
    const llamaCpp = text(content.recua?.['llamaCpp'], pin);
    const one = { name, folder: real, version, backend: text(content.recua?.['backend'], unread.backend), glibc: text(content.recua?.['glibc']) };
    if (version !== wanted) return { ...one, refusal: `it is version ${version || 'unknown'}, but this is Recua ${wanted}` };
    return { ...one, refusal: llamaCpp === pin ? '' : `it is made from llama.cpp ${llamaCpp}, but this Recua is for ${pin}` };
  } catch (error) {
    return { ...unread, refusal: `its package.json cannot be read: ${(error as Error).message}` };
  }
}

/** File names of ggml's CPU libraries: a single one, or one for each level of processors. */
export const cpuLibrary = /^(lib)?ggml-cpu(-[^.]+)?\.(so|dylib|dll)$/;

/** The path of a backend's library in a folder, with ggml's name. */
export function backendLibrary(folder: string, backend: string, platform: string): string {
  return join(folder, platform === 'win32' ? `ggml-${backend}.dll` : `libggml-${backend}.so`);
}

/** The optional backends among the files of the addon's own folder. */
export function librariesBeside(folder: string, platform: string): { backend: string; file: string }[] {
  const pattern = platform === 'win32' ? /^ggml-(.+)\.dll$/ : /^libggml-(.+)\.so$/;
  return entriesOf(folder).flatMap((name) => {
    const backend = pattern.exec(name)?.[1];
    return backend === undefined || /^(base|cpu)(-|$)/.test(backend) ? [] : [{ backend, file: join(folder, name) }];
  });
}
