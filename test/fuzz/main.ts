// `npm run test:fuzz`: runs cases of each kind of hostile input and prints figures. See
// CONTRIBUTING.md.
import { writeFileSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect, parseArgs } from 'node:util';
import { fuzz, type Figures } from './fuzzing.js';
import type { Kind } from './kind.js';
import { kindNames, moduleOf } from './kinds.js';

const longestShown = 2_000;

function read(): { count: number; seed: number; names: readonly string[] } {
  const { values } = parseArgs({ options: { count: { type: 'string', default: '100000' }, seed: { type: 'string', default: String(Date.now() % 2 ** 31) }, only: { type: 'string', default: '' } } });
  const count = Number(values.count);
  const seed = Number(values.seed);
  if (!Number.isSafeInteger(count) || count < 1) throw new Error(`Expected a number of cases after --count, got ${values.count}.`);
  if (!Number.isSafeInteger(seed) || Math.abs(seed) >= 2 ** 31) throw new Error(`Expected an integer of 32 bits after --seed, got ${values.seed}.`);
  const asked = values.only.split(',').filter(Boolean);
  const unknown = asked.filter((name) => !kindNames.includes(name));
  if (unknown.length > 0) throw new Error(`There is no kind ${unknown.join(', ')}. There are: ${kindNames.join(', ')}.`);
  return { count, seed, names: asked.length > 0 ? asked : kindNames };
}

const headings = ['kind', 'cases', 'seconds', 'refused', 'accepted', 'crashes', 'longest ms', 'peak MiB', 'grown MiB'];
const cells = (figures: Figures): string[] => [
  figures.kind,
  ...[
    figures.cases,
    figures.seconds,
    figures.refused,
    figures.accepted,
    figures.crashes,
    figures.longestMs,
    figures.peakMib,
    figures.grownMib,
  ].map((value) => String(Math.round(value))),
];
const row = (texts: readonly string[]): string => texts.map((text, index) => (index === 0 ? text.padEnd(12) : text.padStart(10))).join(' ');

try {
  const { count, seed, names } = read();
  process.stdout.write(`${count} cases of each kind, seed ${seed}; ${cpus()[0]?.model.trim() ?? 'unknown processor'}, ${availableParallelism()} cores, Node ${process.version}\n${row(headings)}\n`);
  for (const name of names) {
    const module = moduleOf(name);
    const { default: kind } = await import(module) as { default: Kind };
    const { figures, failure } = await fuzz(kind, { name, module, count, seed });
    process.stdout.write(`${row(cells(figures))}\n`);
    if (!failure) continue;
    process.exitCode = 1;
    const text = inspect(failure.smallest, { depth: null, maxStringLength: null, maxArrayLength: null });
    const path = join(tmpdir(), `recua-fuzz-${name}-${seed}.txt`);
    writeFileSync(path, text);
    process.stdout.write(`FAILED ${name}: ${failure.why}\nThe smallest case that fails (whole in ${path}):\n${text.slice(0, longestShown)}\nAgain: npm run test:fuzz -- --only ${name} --seed ${seed} --count ${failure.after}\n`);
  }
} catch (thrown) {
  process.stderr.write(`${(thrown as Error).message}\n`);
  process.exitCode = 2;
}
