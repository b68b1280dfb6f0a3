// The progress of the native build, as the scripts show it.
import t from 'tap';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from '../cli/recua.js';

type Report = (fraction: number, note: string, left: string) => void;

t.test('a build says how long the rest takes, from the pace of its first tenth on', async (t) => {
  const { buildCounter } = await import(pathToFileURL(join(root, 'scripts', 'progress.mjs')).href) as { buildCounter(report: Report, now: () => number): (line: string) => void };
  let seconds = 0;
  const told: string[] = [];
  const line = buildCounter((_fraction, note, left) => told.push(`${left} | ${note}`), () => seconds * 1_000);
  for (const [at, text] of [[0, '[1/101] Building src/a.o'], [20, '[6/101] Building src/b.o'], [40, '[11/101] Building src/c.o'], [380, '[96/101] Building src/d.o'], [400, '[101/101] Linking e'], [500, '[ 10%] Building src/f.o'], [560, '[ 40%] Building src/g.o'], [561, 'a line without a counter']] as const) {
    seconds = at;
    line(text);
  }
  t.strictSame(told, [
    ' | 1/101  Building a', ' | 6/101  Building b', 'about 6 min left | 11/101  Building c', 'less than a minute left | 96/101  Building d', ' | 101/101  Linking e',
    ' | Building f', 'about 2 min left | Building g',
  ]);
});
