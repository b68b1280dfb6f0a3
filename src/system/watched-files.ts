// Files that others write while the server runs: keys, certificates. Polled, because the system's
// watch events miss files that are renamed or mounted over.
import { statSync } from 'node:fs';
import { stat } from 'node:fs/promises';

/** After so many intervals a look that has not ended counts as stuck: a dead network drive. */
const patience = 10;

/**
 * Calls back once at the start, and again whenever the files changed and then stayed the same for
 * one interval, so that nobody reads a half-written file; or `stuck`, once, if the system does not
 * answer. If `changed` rejects, it is called again after the next interval. Pipes can be read only
 * once, so files that are pipes at first are not watched. Returns a function that stops polling.
 * Does not keep the process alive.
 */
export function watchFiles(paths: readonly string[], stuck: () => void, changed: () => Promise<void>, everyMs = 1_000): () => void {
  if (paths.some(isPipe)) return () => undefined;
  let before: string | undefined;
  let isPending = true;
  let isLooking = false;
  let missedLooks = 0;
  const look = async (): Promise<void> => {
    if (isLooking) {
      if (++missedLooks === patience) stuck();
      return;
    }
    isLooking = true;
    missedLooks = 0;
    try {
      const now = (await Promise.all(paths.map(stampOf))).join('\n');
      const isSettled = now === before;
      before = now;
      if (!isSettled) isPending = true;
      else if (isPending) {
        await changed();
        isPending = false;
      }
    } catch {
      // It was told, and is still pending.
    } finally {
      isLooking = false;
    }
  };
  const timer = setInterval(() => void look(), everyMs);
  timer.unref();
  return () => clearInterval(timer);
}

function isPipe(path: string): boolean {
  try {
    return statSync(path).isFIFO();
  } catch {
    return false;
  }
}

async function stampOf(path: string): Promise<string> {
  return await stat(path).then(({ dev, ino, size, mtimeMs, ctimeMs }) => [dev, ino, size, mtimeMs, ctimeMs].join(' '), (cause: NodeJS.ErrnoException) => cause.code ?? 'gone');
}
