// Identifies a process across pid reuse: a pid alone names whichever process has it now, but with
// the process's start time and the machine's boot id it names one process forever. Used by lock
// files and the managed server.
import { execFile } from 'node:child_process';
import { readFile, readlink } from 'node:fs/promises';
import { hostname } from 'node:os';
import { promisify } from 'node:util';

export interface ProcessIdentity {
  pid: number;
  /** Start time in the system's own format; only compared. */
  started: string;
  /** The boot and, on Linux, the pid namespace in which the pid is valid. */
  machine: string;
}

/**
 * 'unknown' for a process that is not visible here: on another machine, in another container, or of
 * another user where the system hides those. Or nobody can look now: too many files are open.
 */
export type Life = 'alive' | 'dead' | 'unknown';

const execute = promisify(execFile);
let machine: Promise<string> | undefined;
let own: Promise<ProcessIdentity> | undefined;

/** What the system says of a process that is not there, or that it hides. */
const notThere: readonly unknown[] = ['ENOENT', 'ESRCH', 'EACCES', 'EPERM'];

/**
 * The identity of a running process; undefined if there is none. Rejects if nobody can look now.
 */
export async function identityOf(pid: number): Promise<ProcessIdentity | undefined> {
  const started = await startOf(pid);
  return started === undefined ? undefined : { pid, started, machine: await ownMachine() };
}

/** This process's own identity. */
export function ownIdentity(): Promise<ProcessIdentity> {
  return (own ??= identityOf(process.pid).then((found) => {
    if (!found) throw new Error(`the system does not tell when process ${process.pid}, this one, started`);
    return found;
  }).catch((cause: unknown) => {
    // The next call looks again.
    own = undefined;
    throw cause;
  }));
}

export function sameProcess(a: ProcessIdentity, b: ProcessIdentity): boolean {
  return a.pid === b.pid && a.started === b.started && sameMachine(a.machine, b.machine);
}

/** The machine's name may change while it runs; the boot and the namespace do not. */
export function sameMachine(a: string, b: string): boolean {
  const [here = '', there = ''] = [a, b].map((one) => /^\S* (\S+ \S+)$/.exec(one)?.[1]);
  return a === b || (here !== '' && here === there);
}

/** Whether exactly this process still runs, not another one with its pid. */
export async function lifeOf(identity: ProcessIdentity): Promise<Life> {
  const here = await ownMachine().catch(() => undefined);
  if (here === undefined) return 'unknown';
  if (!sameMachine(identity.machine, here)) return isBeforeRestart(identity.machine, here) ? 'dead' : 'unknown';
  const now = await identityOf(identity.pid).catch(() => null);
  if (now === null || (now === undefined && await isHidden(identity.pid))) return 'unknown';
  return now !== undefined && sameProcess(now, identity) ? 'alive' : 'dead';
}

/** Whether `there` is `here` before it was restarted. Containers can share a name and a boot. */
function isBeforeRestart(there: string, here: string): boolean {
  const [name, boot] = there.split(' ');
  const [ownName, ownBoot] = here.split(' ');
  return name === ownName && boot !== ownBoot;
}

/** Whether a process exists that /proc hides, as with its option hidepid. */
async function isHidden(pid: number): Promise<boolean> {
  if (process.platform !== 'linux' || await readFile(`/proc/${pid}/stat`).then(() => true, () => false)) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Parses an identity from a file; undefined if it is invalid. */
export function readIdentity(value: unknown): ProcessIdentity | undefined {
  const { pid, started, machine: where } = (value ?? {}) as Record<string, unknown>;
  if (typeof pid !== 'number' || !Number.isSafeInteger(pid) || pid <= 0) return undefined;
  return typeof started === 'string' && typeof where === 'string' ? { pid, started, machine: where } : undefined;
}

async function startOf(pid: number): Promise<string | undefined> {
  if (process.platform === 'linux') {
    // A name may contain spaces and parentheses, so count fields from the last parenthesis: the
    // 22nd is the start time in ticks.
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(unlessUnclear);
    const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
    // A zombie has ended; only its parent has not noticed.
    return fields === undefined || fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
  }
  return process.platform === 'win32'
    ? await outputOf('powershell.exe', '-NoProfile', '-Command', `(Get-Process -Id ${pid} -ErrorAction Stop).StartTime.ToFileTimeUtc()`)
    : await outputOf('ps', '-o', 'lstart=', '-p', String(pid));
}

/** Undefined if the program says nothing: then what it was asked about is not there. */
async function outputOf(program: string, ...args: string[]): Promise<string | undefined> {
  // ps writes a time in the language and time zone of its environment. A service and a terminal
  // have different ones, and those of a laptop change on a journey.
  const env = { ...process.env, LC_ALL: 'C', TZ: 'UTC' };
  // It exits with a number if there is no such process.
  const found = await execute(program, args, { windowsHide: true, env }).catch(unlessUnclear);
  return found?.stdout.trim() || undefined;
}

function unlessUnclear(cause: NodeJS.ErrnoException): undefined {
  if (typeof cause.code === 'string' && !notThere.includes(cause.code)) throw cause;
}

/** Rejects if nobody can look now; the next call looks again. */
function ownMachine(): Promise<string> {
  return (machine ??= thisMachine().catch((cause: unknown) => {
    machine = undefined;
    throw cause;
  }));
}

/**
 * Begins with the host name, so that a lock from before a reboot of this machine counts as dead.
 */
async function thisMachine(): Promise<string> {
  if (process.platform === 'darwin') {
    // A Mac takes its name from the network that it is in.
    const session = await outputOf('sysctl', '-n', 'kern.bootsessionuuid');
    return session === undefined ? hostname() : `${hostname()} ${session} -`;
  }
  if (process.platform !== 'linux') return hostname();
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(unlessUnclear) ?? '';
  const namespace = await readlink('/proc/self/ns/pid').catch(unlessUnclear) ?? '';
  return `${hostname()} ${boot.trim()} ${namespace}`;
}
