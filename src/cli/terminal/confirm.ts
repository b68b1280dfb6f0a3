// A question on the terminal that is answered with yes or no.
import { createInterface } from 'node:readline';
import { RecuaError } from '../../errors.js';

/** Whether there is somebody to ask. */
export const canAsk = (): boolean => process.stdin.isTTY && process.stderr.isTTY;

/** Anything but y or yes means no. On Ctrl-C it throws `cancelled` with the message `stopped`. */
export async function confirm(question: string, stopped: string): Promise<boolean> {
  const asked = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await new Promise<string>((resolve, reject) => {
    asked.once('SIGINT', () => {
      process.stderr.write('\n');
      reject(new RecuaError('cancelled', stopped));
    });
    asked.once('close', () => resolve(''));
    asked.question(`${question} [y/N] `, resolve);
  }).finally(() => asked.close());
  return /^\s*y(es)?\s*$/i.test(answer);
}
