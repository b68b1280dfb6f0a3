// Programs on the path.
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, isAbsolute, join, resolve } from 'node:path';

export function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** The first program of that name in the folders of a PATH. */
export function findProgram(name: string, path = ''): string | undefined {
  return path.split(delimiter).filter((folder) => folder !== '').map((folder) => join(resolve(folder), name)).find(isProgram);
}

let found: string | undefined;

/**
 * Node's own program. Without /proc, as in some containers, Node knows only the word that it was
 * started with.
 */
export function nodePath(): string {
  return found ??= pathOf(process.execPath);
}

function pathOf(program: string): string {
  if (isAbsolute(program)) return program;
  return program.includes('/') ? resolve(program) : findProgram(program, process.env['PATH']) ?? program;
}
