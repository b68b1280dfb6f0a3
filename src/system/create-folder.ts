// Creates folders step by step. Node's own `recursive` never returns where the system says ENOENT
// although the parent exists, e.g. in /proc.
import { mkdirSync, statSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Permission bits of the created folders. */
type Mode = 0o700 | 0o777;
type Failure = NodeJS.ErrnoException | undefined;

/**
 * Creates a folder with its missing parents; does nothing if it exists.
 * @throws The system's error, e.g. EACCES; EEXIST or ENOTDIR if a file is in the way.
 */
export async function createFolder(path: string, mode: Mode = 0o777): Promise<void> {
  const attempt = async (): Promise<Failure> => await mkdir(path, { mode }).then(() => undefined, (thrown: Error) => thrown);
  let failure = await attempt();
  if (lacksParent(failure, path)) {
    await createFolder(dirname(path), mode);
    failure = await attempt();
  }
  // For an existing folder the system says EEXIST, or EROFS where it could not create one.
  if (failure !== undefined && !await stat(path).then((found) => found.isDirectory(), () => false)) throw failure;
}

/** `createFolder`, synchronously. */
export function createFolderSync(path: string, mode: Mode = 0o777): void {
  const attempt = (): Failure => {
    try {
      mkdirSync(path, { mode });
      return undefined;
    } catch (thrown) {
      return thrown as Error;
    }
  };
  let failure = attempt();
  if (lacksParent(failure, path)) {
    createFolderSync(dirname(path), mode);
    failure = attempt();
  }
  if (failure !== undefined && !isFolder(path)) throw failure;
}

function lacksParent(failure: Failure, path: string): boolean {
  return failure?.code === 'ENOENT' && dirname(path) !== path;
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}
