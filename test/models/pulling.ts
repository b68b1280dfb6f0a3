// Starts fake-puller.ts and waits until it holds the lock.
import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export async function startPuller(blob: string, teardown: (end: () => void) => void): Promise<ChildProcess> {
  const child = fork(fileURLToPath(new URL('./fake-puller.js', import.meta.url)), [blob], { stdio: 'inherit', execArgv: [] });
  teardown(() => child.kill('SIGKILL'));
  const [locked] = await once(child, 'message') as [boolean];
  if (!locked) throw new Error('the lock was taken');
  return child;
}
