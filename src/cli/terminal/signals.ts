// SIGINT, SIGTERM and SIGHUP: the first signal asks for an orderly exit, a second one exits at
// once. The exit code is always the shell's for a process killed by that signal, 128 plus the
// signal's number, as in the first moments of a process, before these handlers exist. Closing a
// terminal often sends SIGHUP twice, from the kernel and from the shell: after the first, SIGHUP
// does nothing.

/**
 * npm forwards a Ctrl-C that the terminal already sent to this process. A second signal within this
 * time is the same keystroke.
 */
const sameKeystrokeMs = 100;

/** The signals that end a command in order. */
export type StopName = 'SIGINT' | 'SIGTERM' | 'SIGHUP';
const exitCodes: Readonly<Record<StopName, number>> = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };

let stoppedBy: StopName = 'SIGINT';

/** The exit code of a stopped command: of the first signal, else of the key Ctrl-C. */
export function stopCode(): number {
  return exitCodes[stoppedBy];
}

/** Records the signal that ends the command, for `stopCode`. */
export function noteStop(name: StopName): void {
  stoppedBy = name;
  if (name === 'SIGHUP' && !process.listeners('SIGHUP').includes(ignore)) process.on('SIGHUP', ignore);
}

function ignore(): void { /* The cleanup goes on. */ }

export interface StopSignal {
  /** Aborted by the first signal. */
  readonly signal: AbortSignal;
  /** Removes the handlers. */
  release(): void;
}

/**
 * Watches SIGINT, SIGTERM and the closing of the terminal, if there is one. A second signal other
 * than SIGHUP calls `onSecond`.
 */
export function watchSignals(onSecond: () => void = () => process.exit(stopCode())): StopSignal {
  const controller = new AbortController();
  let first = 0;
  const onSignal = (name: NodeJS.Signals) => {
    if (!controller.signal.aborted) {
      noteStop(name as StopName);
      first = performance.now();
      controller.abort();
    } else if (name !== 'SIGHUP' && performance.now() - first > sameKeystrokeMs) {
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

/** For servers; main already keeps these signals from doing anything. */
export function tellUserSignals(told: (name: string) => void): void {
  for (const name of ['SIGUSR1', 'SIGUSR2'] as const) process.on(name, () => told(name));
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
