import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { identityOf, type ProcessIdentity } from '#recua/system/process-identity.js';

/** The identity of a process that has ended. */
export async function deadProcess(): Promise<ProcessIdentity> {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  const identity = await identityOf(child.pid!);
  child.kill('SIGKILL');
  await once(child, 'exit');
  return identity!;
}
