// A process of list.test and rm.test: it holds the lock of a download as a pull does, and ends when
// it finds the cancel file.
import { existsSync } from 'node:fs';
import { tryLock } from '#recua/system/lock-file.js';

const [blob] = process.argv.slice(2) as [string];
const lock = await tryLock(`${blob}.recua-lock`);
process.send!(lock !== undefined);
setInterval(() => {
  if (existsSync(`${blob}.recua-cancel`)) void lock!.release().then(() => process.exit(3));
}, 50);
