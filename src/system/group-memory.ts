// The memory that control groups leave to this process, as in a container. Both versions of Linux's
// control groups; elsewhere there are none. Used by machine-memory.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

interface GroupMemory {
  /** The lowest limit of the group and those around it; Infinity without one. */
  limitBytes: number;
  /**
   * What is left below the limits. A group counts cached file pages as used, but the system drops
   * them when memory is needed, so they count as free here.
   */
  leftBytes: number;
}

interface Version {
  /** The group's line in /proc/self/cgroup. */
  line: RegExp;
  /** Where the groups are, below the folder of all control groups. */
  folder: string;
  limits: readonly string[];
  used: string;
  /** The file pages of the group and those in it, in memory.stat. */
  cached: RegExp;
}

const versions: readonly Version[] = [
  { line: /^0::(.*)$/m, folder: '', limits: ['memory.max', 'memory.high'], used: 'memory.current', cached: /^(?:in)?active_file (\d+)$/gm },
  {
    line: /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/m, folder: 'memory',
    limits: ['memory.limit_in_bytes'], used: 'memory.usage_in_bytes', cached: /^total_(?:in)?active_file (\d+)$/gm,
  },
];

/** `top`: the folder of all control groups; `own`: the groups of this process. */
export function groupMemory(top = '/sys/fs/cgroup', own = textOf('/proc/self/cgroup')): GroupMemory {
  return least(versions.map((version) => {
    const group = version.line.exec(own)?.[1];
    // A group outside of the visible ones begins with `/..`.
    return group === undefined ? unlimited : memoryIn(join('/', group), join(top, version.folder), version);
  }));
}

const unlimited: GroupMemory = { limitBytes: Infinity, leftBytes: Infinity };

/** In a container, the group's own path may be invisible; its limits are then those of the top. */
function memoryIn(group: string, top: string, version: Version): GroupMemory {
  const folder = join(top, group);
  const limitBytes = Math.min(...version.limits.map((name) => numberIn(join(folder, name)) ?? Infinity));
  const usedBytes = numberIn(join(folder, version.used));
  const cachedBytes = [...textOf(join(folder, 'memory.stat')).matchAll(version.cached)].reduce((sum, [, bytes]) => sum + Number(bytes), 0);
  const leftBytes = usedBytes === undefined ? Infinity : Math.max(0, limitBytes - usedBytes + cachedBytes);
  const here = { limitBytes, leftBytes };
  return group === '/' ? here : least([here, memoryIn(dirname(group), top, version)]);
}

function least(found: readonly GroupMemory[]): GroupMemory {
  return {
    limitBytes: Math.min(...found.map(({ limitBytes }) => limitBytes)),
    leftBytes: Math.min(...found.map(({ leftBytes }) => leftBytes)),
  };
}

/** Undefined for `max`, or without the file. */
function numberIn(path: string): number | undefined {
  const text = textOf(path).trim();
  return /^\d+$/.test(text) ? Number(text) : undefined;
}

/** '' if there is no such file. */
export function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
