// Waits for a time of the clock. Node's timers run on a clock of their own, which stands still
// while the machine sleeps and knows nothing of a clock that somebody sets. Used by batches.

export const lookMs = 60_000;

/**
 * Calls `due` when the clock shows `whenMs`, or when it was set back, so that the caller can think
 * again. It looks at the clock at least every `everyMs`. Returns a function that stops it.
 */
export function atTime(whenMs: number, due: () => void, everyMs = lookMs): () => void {
  let timer: NodeJS.Timeout;
  const wait = (fromMs: number): void => {
    timer = setTimeout(() => {
      const nowMs = Date.now();
      if (nowMs >= whenMs || nowMs < fromMs) due();
      else wait(nowMs);
    }, Math.min(Math.max(0, whenMs - fromMs), everyMs));
    timer.unref();
  };
  wait(Date.now());
  return () => clearTimeout(timer);
}
