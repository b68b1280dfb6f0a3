// A process that has as many files open as it may. Prints whether its parent lives, on a platform.
// If that is given, this process has not looked at its own machine before.
import { openSync } from 'node:fs';
import { identityOf, lifeOf, readIdentity } from '#recua/system/process-identity.js';

const [, , platform, given] = process.argv;
Object.defineProperty(process, 'platform', { value: platform });
const parent = given === undefined ? (await identityOf(process.ppid))! : readIdentity(JSON.parse(given))!;
try {
  for (;;) openSync('/dev/null', 'r');
} catch { /* No more. */ }
process.stdout.write(await lifeOf(parent));
