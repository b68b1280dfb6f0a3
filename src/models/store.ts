// Names ↔ files: what a model argument means. `builtin` is the embedded model; anything else is a path.
import { access, stat } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { RecuaError } from '../errors.js';

export interface StoredModel {
  /** Absolute. */
  path: string;
  /** The name clients see. */
  id: string;
  aliases: readonly string[];
  /** Seconds since 1970 of the file's last change. */
  createdSeconds: number;
}

/** The embedded model's file. */
export const builtinPath = fileURLToPath(new URL('../../models/builtin.gguf', import.meta.url));

/** Finds the file of a model argument; throws `model_not_found` with all that was looked for. */
export async function findModel(name: string, folder = process.cwd()): Promise<StoredModel> {
  if (name === '') throw new RecuaError('model_not_found', 'Expected a model: the path of a GGUF file, or builtin for the embedded one.');
  if (name === 'builtin') return describe(builtinPath, 'builtin', await lookUp(builtinPath, name, []));
  const path = resolve(folder, name);
  const candidates = /\.gguf$/i.test(path) ? [path] : [path, `${path}.gguf`];
  for (const candidate of candidates) {
    if (await exists(candidate)) return describe(candidate, idOf(candidate), await lookUp(candidate, name, candidates));
  }
  throw notFound(name, candidates);
}

function notFound(name: string, looked: readonly string[], cause?: unknown): RecuaError {
  if (name === 'builtin') {
    return new RecuaError('model_not_found', `The embedded model is missing: there is no ${builtinPath}. Install Recua again, or get the file back from the repository.`, { cause });
  }
  return new RecuaError('model_not_found',
    `There is no model ${name}: looked for ${looked.map((path) => `the file ${path}`).join(' and ')}. Expected the path of a GGUF file, or builtin for the embedded model.`,
    { cause });
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    return false;
  }
}

async function lookUp(path: string, name: string, looked: readonly string[]): Promise<number> {
  try {
    const found = await stat(path);
    if (found.isDirectory()) throw new RecuaError('file_unreadable', `${path} is a folder; expected a GGUF file.`);
    return Math.floor(found.mtimeMs / 1000);
  } catch (cause) {
    if (cause instanceof RecuaError) throw cause;
    throw notFound(name, looked, cause);
  }
}

function describe(path: string, id: string, createdSeconds: number): StoredModel {
  return { path, id, aliases: [], createdSeconds };
}

/** A file's name without what says nothing about the model: the ending, and the count of a split one's parts. */
function idOf(path: string): string {
  return basename(path).replace(/\.gguf$/i, '').replace(/-\d{5}-of-\d{5}$/, '');
}
