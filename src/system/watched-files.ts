// Files that others write while the server runs: keys, certificates. Looked at again and again and
// not watched by the system, whose events miss what is renamed or mounted anew. Floor of the house.
import { stat } from 'node:fs/promises';

const everyMs = 1_000;

/**
 * Calls back once at the beginning, and then each time that the files have changed and stayed the
 * same from one look to the next, so that nobody reads what is still being written. Returns what
 * ends that. Holds no process open.
 */
export function watchFiles(paths: readonly string[], changed: () => Promise<void>): () => void {
  let before: string | undefined;
  let isPending = true;
  let isLooking = false;
  const look = async (): Promise<void> => {
    if (isLooking) return;
    isLooking = true;
    try {
      const now = (await Promise.all(paths.map(stampOf))).join('\n');
      const isSettled = now === before;
      before = now;
      if (!isSettled) isPending = true;
      else if (isPending) {
        isPending = false;
        await changed();
      }
    } finally {
      isLooking = false;
    }
  };
  const timer = setInterval(() => void look(), everyMs);
  timer.unref();
  return () => clearInterval(timer);
}

async function stampOf(path: string): Promise<string> {
  return await stat(path).then(({ dev, ino, size, mtimeMs, ctimeMs }) => [dev, ino, size, mtimeMs, ctimeMs].join(' '), (cause: NodeJS.ErrnoException) => cause.code ?? 'gone');
}
