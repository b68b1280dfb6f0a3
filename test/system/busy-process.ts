// A process that has as many files open as it may. Prints whether its parent lives, on a platform.
import { openSync } from 'node:fs';
import { identityOf, lifeOf } from '#recua/system/process-identity.js';

Object.defineProperty(process, 'platform', { value: process.argv[2] });
const parent = (await identityOf(process.ppid))!;
try {
  for (;;) openSync('/dev/null', 'r');
} catch { /* No more. */ }
process.stdout.write(await lifeOf(parent));
