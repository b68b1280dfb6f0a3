// What a server costs: memory and CPU time of its process and all descendants. Linux only;
// elsewhere nothing.
import { readFileSync, readdirSync } from 'node:fs';

const ticksPerSecond = 100;

/** A process and all its descendants. */
export function processTree(root) {
  const children = new Map();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const stat = readStat(Number(name));
    if (stat) children.set(stat.parent, [...(children.get(stat.parent) ?? []), Number(name)]);
  }
  const tree = [root];
  for (const pid of tree) tree.push(...(children.get(pid) ?? []));
  return tree;
}

function readStat(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return { parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) };
  } catch {
    return undefined;
  }
}

/** Proportional set size, so that memory shared by processes counts once: MiB. */
function residentMib(pid) {
  try {
    return Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}

/** @returns {{ residentMib: number, cpuSeconds: number } | undefined} */
export function resources(pid) {
  if (process.platform !== 'linux') return undefined;
  const tree = processTree(pid);
  return {
    residentMib: tree.reduce((sum, one) => sum + residentMib(one), 0),
    cpuSeconds: tree.reduce((sum, one) => sum + (readStat(one)?.ticks ?? 0), 0) / ticksPerSecond,
  };
}
