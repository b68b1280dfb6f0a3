// Whether this process may control its terminal. A process group in the background that tries to is
// stopped by the system, and no signal reaches it until it is continued.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** True where the system does not say. */
export function isForeground(): boolean {
  try {
    const [group, foreground] = groups();
    // Without a controlling terminal, nothing is stopped.
    return foreground === undefined || !(foreground > 0) || foreground === group;
  } catch {
    return true;
  }
}

/** The ids of this process's group and of the group in the foreground. */
function groups(): number[] {
  if (process.platform === 'linux') {
    const stat = readFileSync('/proc/self/stat', 'utf8');
    // The name in parentheses may have spaces. After it: state, parent, group, session, terminal,
    // foreground group.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return [Number(fields[2]), Number(fields[5])];
  }
  if (process.platform !== 'darwin') return [];
  return execFileSync('ps', ['-o', 'pgid=,tpgid=', '-p', String(process.pid)], { encoding: 'utf8' }).trim().split(/\s+/).map(Number);
}
