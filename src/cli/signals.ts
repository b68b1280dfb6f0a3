// Ctrl-C and its relatives: the first signal asks for an orderly end, a second one ends at once.

/** npm hands on a Ctrl-C that the terminal has sent to us already; what comes within this time is the same keystroke. */
const sameKeystrokeMs = 100;

export interface StopSignal {
  /** Aborted by the first signal. */
  readonly signal: AbortSignal;
  /** Takes the handlers away again. */
  release(): void;
}

/** Watches SIGINT, SIGTERM and, where there is one, the closing of the terminal. `onSecond` is what a second signal does. */
export function watchSignals(onSecond: () => void = () => process.exit(130)): StopSignal {
  const controller = new AbortController();
  let first = 0;
  const onSignal = () => {
    if (!controller.signal.aborted) {
      first = Date.now();
      controller.abort();
    } else if (Date.now() - first > sameKeystrokeMs) {
      onSecond();
    }
  };
  const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const name of names) process.on(name, onSignal);
  return {
    signal: controller.signal,
    release() {
      for (const name of names) process.removeListener(name, onSignal);
    },
  };
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
