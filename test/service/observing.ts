// What the processes of a server hold, and how fast it answers monitors. Linux only.
import { once } from 'node:events';
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { Worker } from 'node:worker_threads';

/** A number of metrics, summed over their labels. */
export async function metric(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return text.split('\n').filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `)).reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}

/** What `look` tells of a process, or `other` if it has ended meanwhile. */
export function unlessEnded<T>(look: () => T, other: T): T {
  try {
    return look();
  } catch (thrown) {
    if (!['ENOENT', 'ESRCH'].includes((thrown as NodeJS.ErrnoException).code!)) throw thrown;
    return other;
  }
}

/** A process and its descendants. */
export function processTree(pid: number): number[] {
  const threads = unlessEnded(() => readdirSync(`/proc/${pid}/task`), []);
  const children = threads.flatMap((id) => unlessEnded(() => readFileSync(`/proc/${pid}/task/${id}/children`, 'utf8'), '').split(' ').filter(Boolean).map(Number));
  return [pid, ...children.flatMap(processTree)];
}

export function socketsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).filter((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith('socket:');
    } catch {
      return false;
    }
  }).length;
}

export function residentMib(pid: number): number {
  return processTree(pid).reduce((sum, one) => sum + Number(/^RssAnon:\s+(\d+)/m.exec(unlessEnded(() => readFileSync(`/proc/${one}/status`, 'utf8'), ''))?.[1] ?? 0) / 1024, 0);
}

/** The engine processes of a server. */
export function enginesOf(pid: number): number[] {
  return processTree(pid).filter((one) => one !== pid && unlessEnded(() => readFileSync(`/proc/${one}/cmdline`, 'utf8'), '').includes('engine/process/main.js'));
}

/** Polls repeatedly on its own thread, which many clients do not delay. */
const lookOn = `
  const { parentPort, workerData: url } = require('node:worker_threads');
  const looked = [];
  let over = false;
  parentPort.once('message', () => { over = true; });
  (async () => {
    while (!over) {
      for (const at of ['/health', '/metrics']) {
        const startMs = performance.now();
        const response = await fetch(url + at);
        await response.text();
        looked.push(performance.now() - startMs);
        if (!response.ok) throw new Error(at + ': ' + response.status);
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    parentPort.postMessage(looked);
  })();
`;

/** Sorted milliseconds of each request to /health and /metrics, once it is told to stop. */
export function lookAt(url: string): () => Promise<number[]> {
  const looking = new Worker(lookOn, { eval: true, workerData: url });
  return async () => {
    looking.postMessage('over');
    const [looked] = await once(looking, 'message') as [number[]];
    return looked.sort((a, b) => a - b);
  };
}
