// Which process a pid stood for when it was written down. A pid alone names whoever has it now;
// with the process's start time and the machine's boot it names one process for ever. Floor of the
// house: used by lock files and the managed server.
import { execFile } from 'node:child_process';
import { readFile, readlink } from 'node:fs/promises';
import { hostname } from 'node:os';
import { promisify } from 'node:util';

export interface ProcessIdentity {
  pid: number;
  /** When it started, in the system's own words; only ever compared. */
  started: string;
  /** Boot and pid namespace in which the pid has a meaning. */
  machine: string;
}

/**
 * 'unknown' for one of another machine or container, or of another user where the system hides
 * those: nothing here can see it.
 */
export type Life = 'alive' | 'dead' | 'unknown';

const execute = promisify(execFile);
let machine: Promise<string> | undefined;
let own: Promise<ProcessIdentity> | undefined;

/** The identity of a running process; undefined if there is none. */
export async function identityOf(pid: number): Promise<ProcessIdentity | undefined> {
  const started = await startOf(pid);
  return started === undefined ? undefined : { pid, started, machine: await (machine ??= thisMachine()) };
}

/** This process's own identity. */
export function ownIdentity(): Promise<ProcessIdentity> {
  return (own ??= identityOf(process.pid).then((found) => {
    if (!found) throw new Error(`the system does not tell when process ${process.pid}, this one, started`);
    return found;
  }));
}

export function sameProcess(a: ProcessIdentity, b: ProcessIdentity): boolean {
  return a.pid === b.pid && a.started === b.started && a.machine === b.machine;
}

/** Whether exactly this process still runs: a stranger with its pid does not count. */
export async function lifeOf(identity: ProcessIdentity): Promise<Life> {
  const here = await (machine ??= thisMachine());
  if (identity.machine !== here) return identity.machine.startsWith(`${hostname()} `) ? 'dead' : 'unknown';
  const now = await identityOf(identity.pid);
  if (now === undefined && await isHidden(identity.pid)) return 'unknown';
  return now !== undefined && sameProcess(now, identity) ? 'alive' : 'dead';
}

/** Whether there is a process of which /proc tells nothing, as with its option hidepid. */
async function isHidden(pid: number): Promise<boolean> {
  if (process.platform !== 'linux' || await readFile(`/proc/${pid}/stat`).then(() => true, () => false)) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** What a file claims to be an identity; undefined if it is none. */
export function readIdentity(value: unknown): ProcessIdentity | undefined {
  const { pid, started, machine: where } = (value ?? {}) as Record<string, unknown>;
  if (typeof pid !== 'number' || !Number.isSafeInteger(pid) || pid <= 0) return undefined;
  return typeof started === 'string' && typeof where === 'string' ? { pid, started, machine: where } : undefined;
}

async function startOf(pid: number): Promise<string | undefined> {
  if (process.platform === 'linux') {
    // A name may hold blanks and brackets, so the fields are counted from the last bracket: the
    // 22nd is the start in ticks.
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
    const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
    // A zombie has ended; only its parent has not noticed.
    return fields === undefined || fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
  }
  const [program, ...args] = process.platform === 'win32'
    ? ['powershell.exe', '-NoProfile', '-Command', `(Get-Process -Id ${pid} -ErrorAction Stop).StartTime.ToFileTimeUtc()`] as const
    : ['ps', '-o', 'lstart=', '-p', String(pid)] as const;
  const found = await execute(program, args, { windowsHide: true }).catch(() => undefined);
  return found?.stdout.trim() || undefined;
}

/**
 * Begins with the host's name, so that a lock left from before a restart of this machine is known
 * to be dead.
 */
async function thisMachine(): Promise<string> {
  if (process.platform !== 'linux') return hostname();
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '');
  const namespace = await readlink('/proc/self/ns/pid').catch(() => '');
  return `${hostname()} ${boot.trim()} ${namespace}`;
}
