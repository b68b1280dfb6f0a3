// The process that runs cases of one kind, one after another. It ends with the process that draws
// them.
import { readFileSync, writeFileSync } from 'node:fs';
import type { Kind, Subject } from './kind.js';
import type { Reply } from './trying.js';

const { default: kind } = await import(process.argv[2]!) as { default: Kind };
let subject: Subject<unknown> | undefined;

/** On Linux, Node's maxRSS begins with the peak of the parent process. */
function peakBytes(): number {
  if (process.platform !== 'linux') return process.resourceUsage().maxRSS * 1_024;
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))![1]) * 1_024;
}

async function run(work: () => Promise<Reply['outcome']>): Promise<void> {
  const start = performance.now();
  const reply: Reply = { ms: 0, peakBytes: 0 };
  try {
    reply.outcome = await work();
  } catch (thrown) {
    reply.why = thrown instanceof Error ? thrown.stack ?? thrown.message : String(thrown);
  }
  reply.ms = performance.now() - start;
  reply.peakBytes = peakBytes() + (subject?.othersPeakBytes?.() ?? 0);
  process.send!(reply);
}

process.on('message', (message: { one?: unknown }) => void run(async () => {
  if ('one' in message) return await subject!.take(message.one);
  await subject!.close();
  return 'accepted';
}));
process.on('disconnect', () => process.exit());

await run(async () => {
  subject = await kind.open();
  // The peak counts from here on.
  if (process.platform === 'linux') writeFileSync('/proc/self/clear_refs', '5');
  return 'accepted';
});
