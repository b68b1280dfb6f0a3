// A process that takes itself for one on a Mac of that name. Prints the identity of its parent, or
// whether the given process lives.
import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';
import { identityOf, lifeOf, readIdentity } from '#recua/system/process-identity.js';

const [, , name, given] = process.argv;
Object.defineProperty(process, 'platform', { value: 'darwin' });
os.hostname = () => name!;
syncBuiltinESMExports();
process.stdout.write(given === undefined ? JSON.stringify(await identityOf(process.ppid)) : await lifeOf(readIdentity(JSON.parse(given))!));
