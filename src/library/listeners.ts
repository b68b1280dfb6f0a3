// Calls functions of the program that uses the library.

/**
 * Runs listeners. What one throws is an uncaught exception, as in any EventEmitter, but does not
 * end the work that is told of: a model would not come back after a crash.
 */
export function telling(tell: () => void): void {
  try {
    tell();
  } catch (thrown) {
    process.nextTick(() => { throw thrown; });
  }
}
