// Files that others write while the server runs: keys, certificates. Polled, because the system's
// watch events miss files that are renamed or mounted over.
import { stat } from 'node:fs/promises';

const everyMs = 1_000;

/**
 * Calls back once at the start, and again whenever the files changed and then stayed the same for
 * one interval, so that nobody reads a half-written file. Returns a function that stops polling.
 * Does not keep the process alive.
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
