// A process of lock-file.test: takes the given lock, says so, and stays.
import { tryLock } from '#recua/system/lock-file.js';

const lock = await tryLock(process.argv[2]!);
process.send!(lock !== undefined);
setInterval(() => {}, 1000);
