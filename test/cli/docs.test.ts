import t from 'tap';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { allPlaces } from '#recua/cli/command-tree.js';
import { manPage, markdown, withModelKeys } from '#recua/cli/reference.js';
import { allCommands } from '#recua/cli/table.js';
import { root } from './recua.js';
import { scripts } from '../scripts/checkout.js';

const all = await allCommands();

const read = (file: string) => readFileSync(join(root, 'docs', file), 'utf8');

t.test('docs/cli.md, docs/recua.1 and the keys in docs/configuration.md match their tables', (t) => {
  t.equal(read('cli.md') === markdown(all), true, 'npm run docs writes docs/cli.md anew');
  t.equal(read('recua.1') === manPage(all), true, 'npm run docs writes docs/recua.1 anew');
  t.equal(read('configuration.md') === withModelKeys(read('configuration.md')), true, 'npm run docs writes the keys in docs/configuration.md anew');
  t.end();
});

t.test('docs/cli.md has a section for each command and a row for each flag', (t) => {
  const text = markdown(all);
  for (const { command, path } of allPlaces(all)) {
    t.match(text, new RegExp(`^#+ recua ${path}$`, 'm'));
    for (const flag of Object.values(command.flags)) t.match(text, new RegExp(`^\\| .*${flag.names[0]}\\b.* \\| .* \\|$`, 'm'));
  }
  // Each row of a table has as many cells as its head.
  let head = 0;
  for (const line of text.split('\n')) {
    const cells = line.startsWith('|') ? line.replaceAll('\\|', '').split('|').length : 0;
    if (cells > 0 && head > 0) t.equal(cells, head, line);
    head = cells;
  }
  t.end();
});

t.test('the man page is valid roff', { skip: spawnSync('groff', ['--version']).status !== 0 && 'groff is not installed' }, (t) => {
  const { status, stderr, stdout } = spawnSync('groff', ['-man', '-Tutf8', '-ww'], { input: manPage(all), encoding: 'utf8' });
  t.strictSame({ status, stderr }, { status: 0, stderr: '' });
  for (const { path } of allPlaces(all)) t.ok(stdout.replace(/\u001b\[[\d;]*m|.\u0008/gu, '').includes(`recua ${path}`), path);
  t.end();
});

t.test('the charts of docs/performance.md match its tables', async (t) => {
  const { charts } = await import(`${scripts}charts.mjs`) as { charts(): Record<string, string> };
  const drawn = charts();
  t.equal(Object.keys(drawn).length, 3);
  for (const [name, svg] of Object.entries(drawn)) t.equal(read(`images/${name}`) === svg, true, `npm run docs draws docs/images/${name} anew`);
  t.equal([...drawn['bench-beside-llama-server.svg']!.matchAll(/r="5"/g)].length, read('performance.md').split('\n').filter((line) => /^\|.*\| \*\*[\d.]+\*\* \|.*\|.*\|$/.test(line) && line.includes(' · ')).length, 'each load has its median');
});
