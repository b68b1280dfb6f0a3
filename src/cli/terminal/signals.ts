// Ctrl-C and its relatives: the first signal asks for an orderly end, a second one ends at once.
// Whatever a command was doing, the exit code is what a shell says of a process that the signal
// itself has ended, 128 and the signal's number: that is what the first moments give, before
// anybody watches.

/**
 * npm hands on a Ctrl-C that the terminal has sent to us already; what comes within this time is
 * the same keystroke.
 */
const sameKeystrokeMs = 100;

/** What ends a command in order. */
export type StopName = 'SIGINT' | 'SIGTERM' | 'SIGHUP';
const exitCodes: Readonly<Record<StopName, number>> = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };

let stoppedBy: StopName = 'SIGINT';

/**
 * The exit code of a command that was stopped: by the signal that came first, else by the key
 * Ctrl-C.
 */
export function stopCode(): number {
  return exitCodes[stoppedBy];
}

/** Remembers what a command is ended by, for `stopCode`. */
export function noteStop(name: StopName): void {
  stoppedBy = name;
}

export interface StopSignal {
  /** Aborted by the first signal. */
  readonly signal: AbortSignal;
  /** Takes the handlers away again. */
  release(): void;
}

/**
 * Watches SIGINT, SIGTERM and, where there is one, the closing of the terminal. `onSecond` is what
 * a second signal does.
 */
export function watchSignals(onSecond: () => void = () => process.exit(stopCode())): StopSignal {
  const controller = new AbortController();
  let first = 0;
  const onSignal = (name: NodeJS.Signals) => {
    if (!controller.signal.aborted) {
      noteStop(name as StopName);
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
