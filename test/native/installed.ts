// Installations of Recua as package managers make them: the product's files, native packages beside
// them whose `bin` is the build of this checkout, and GPU packages around a given library.
import { cpSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { release, root } from './fake-backend.js';

export { root };
export const base = `${process.platform}-${process.arch}`;
export const ownVersion = (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }).version;
export const ownPin = (JSON.parse(readFileSync(join(root, 'vendor', 'llama.cpp.json'), 'utf8')) as { version: string }).version;

export interface PackageKind {
  /** 'linux-x64', or with a backend appended. */
  name: string;
  backend: string;
  version?: string;
  llamaCpp?: string;
  glibc?: string;
  /** A library, or the folder of a build; neither leaves `bin` empty. */
  library?: string;
  build?: string;
}

/** Recua itself, without anything native. */
export function placeRecua(folder: string): void {
  mkdirSync(folder, { recursive: true });
  for (const name of ['package.json', 'dist', 'vendor/llama.cpp.json', 'builtin/builtin.gguf']) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    cpSync(join(root, name), join(folder, name), { recursive: true });
  }
}

/** Links to all dependencies of Recua. */
export function placeDependencies(modules: string): void {
  mkdirSync(modules, { recursive: true });
  for (const name of readdirSync(join(root, 'node_modules'))) {
    if (!name.startsWith('.') && name !== '@recua') symlinkSync(join(root, 'node_modules', name), join(modules, name));
  }
}

export function placePackage(folder: string, { name, backend, version = ownVersion, llamaCpp = ownPin, glibc = '2.28', library, build }: PackageKind): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: `@recua/${name}`, version, recua: { backend, version, llamaCpp, glibc } }));
  if (build !== undefined) symlinkSync(build, join(folder, 'bin'));
  else mkdirSync(join(folder, 'bin'));
  if (library !== undefined) cpSync(library, join(folder, 'bin', `libggml-${backend}.so`));
}

export const basePackage: PackageKind = { name: base, backend: 'cpu', build: release };

/** npm's flat layout, or a global prefix with `global`. Returns Recua's folder. */
export function flatLayout(folder: string, packages: readonly PackageKind[], global = false): string {
  const modules = global ? join(folder, 'lib', 'node_modules') : join(folder, 'node_modules');
  placeDependencies(modules);
  if (!global) writeFileSync(join(folder, 'package.json'), '{"name":"somebody","version":"1.0.0"}');
  placeRecua(join(modules, 'recua'));
  for (const one of packages) placePackage(join(modules, '@recua', one.name), one);
  return join(modules, 'recua');
}

/**
 * pnpm's store: every package in its own folder, with links to its dependencies; `extra` are those
 * of the project.
 */
export function pnpmLayout(folder: string, packages: readonly PackageKind[], extra: readonly PackageKind[]): string {
  const modules = join(folder, 'node_modules');
  const own = join(modules, '.pnpm', `recua@${ownVersion}`, 'node_modules');
  placeDependencies(own);
  placeRecua(join(own, 'recua'));
  const place = (one: PackageKind, from: string): void => {
    const real = join(modules, '.pnpm', `@recua+${one.name}@${one.version ?? ownVersion}`, 'node_modules', '@recua', one.name);
    placePackage(real, one);
    mkdirSync(join(from, '@recua'), { recursive: true });
    symlinkSync(relative(join(from, '@recua'), real), join(from, '@recua', one.name));
  };
  for (const one of packages) place(one, own);
  for (const one of extra) place(one, modules);
  symlinkSync(relative(modules, join(own, 'recua')), join(modules, 'recua'));
  writeFileSync(join(folder, 'package.json'), '{"name":"somebody","version":"1.0.0"}');
  return join(modules, 'recua');
}
