// `node scripts/charts.mjs`: draws docs/images/bench-*.svg from the tables of docs/performance.md,
// which hold what `npm run bench` measured. `npm run docs` calls it; a test compares.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isProgram, root } from './place.mjs';

/** The rows of the table that begins with these column names, without markup. */
function table(page, ...names) {
  const lines = page.split('\n');
  const head = lines.findIndex((line) => line.startsWith(`| ${names.join(' | ')} |`));
  if (head < 0) throw new Error(`docs/performance.md has no table of ${names.join(', ')}.`);
  const end = lines.findIndex((line, at) => at > head && !line.startsWith('|'));
  return lines.slice(head + 2, end).map((line) => line.split('|').slice(1, -1).map((cell) => cell.replaceAll(/[*`]/g, '').trim()));
}

const number = (cell) => Number.parseFloat(cell.replaceAll(',', ''));
const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
const at = (value) => Number(value.toFixed(1));
const text = (x, y, words, more = '') => `<text x="${at(x)}" y="${at(y)}"${more}>${escape(words)}</text>`;
const right = ' text-anchor="end"';
const middle = ' text-anchor="middle"';

function picture(width, height, label, parts) {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escape(label)}">
<style>svg{background:#fff}text{font:12px system-ui,sans-serif;fill:#24292f}.q{fill:#57606a}.l{stroke:#d0d7de}.o{stroke:#57606a}.a{fill:#0969da}.b{fill:#bc4c00}.c{fill:#8c959f}.r{fill:#8c959f;opacity:.6}.g{stroke:#1a7f37;stroke-width:2}
@media (prefers-color-scheme:dark){svg{background:#0d1117}text{fill:#d0d7de}.q{fill:#8b949e}.l{stroke:#30363d}.o{stroke:#8b949e}.a{fill:#58a6ff}.b{fill:#f0883e}.c,.r{fill:#6e7681}.g{stroke:#3fb950}}</style>
${parts.flat(3).join('\n')}
</svg>
`;
}

/** Each load's median and single runs beside llama-server, with the goal. */
function besideLlamaServer(page) {
  const rows = table(page, 'load', 'model', 'runs', 'median', 'goal').map(([load, model, runs, median, goal]) => {
    // If less is better, show how many times less.
    const turn = /\btime\b|memory/.test(load) ? (value) => 1 / value : (value) => value;
    const isTurned = turn(2) !== 2;
    return { label: `${load}, ${model}${isTurned ? ' ↓' : ''}`, runs: runs.split('·').map(number).map(turn), median: turn(number(median)), goal: turn(number(goal)) };
  });
  const [left, width, top, step] = [520, 990, 62, 19];
  const [least, most] = [0.4, 32];
  const x = (value) => left + Math.log(value / least) / Math.log(most / least) * (width - left - 20);
  const bottom = top + rows.length * step;
  return picture(width, bottom + 34, 'How many times as fast as llama-server Recua is, for each load', [
    text(10, 20, 'How many times as fast as llama-server (↓: how many times less time or memory)', ' font-weight="600"'),
    [0.5, 1, 2, 5, 10, 20].map((tick) => [`<line x1="${at(x(tick))}" x2="${at(x(tick))}" y1="${top - 10}" y2="${bottom}" class="${tick === 1 ? 'o' : 'l'}"/>`, text(x(tick), top - 14, `${tick}×`, ` class="q"${middle}`)]),
    rows.map(({ label, runs, median, goal }, index) => {
      const y = top + index * step + 4;
      return [text(left - 14, y + 4, label, right), runs.map((run) => `<circle cx="${at(x(run))}" cy="${y}" r="3" class="r"/>`),
        `<line x1="${at(x(goal))}" x2="${at(x(goal))}" y1="${y - 7}" y2="${y + 7}" class="g"/><circle cx="${at(x(median))}" cy="${y}" r="5" class="${median >= 1 ? 'a' : 'b'}"/>`];
    }),
    text(10, bottom + 20, 'Large dots: the median (orange: below 1×); small dots: the runs; green: the goal, without the ms or MiB that are allowed on top of it.', ' class="q"'),
  ]);
}

/** Grouped bars: one bar per series in each group. */
function bars(title, groups, series) {
  const [width, left, top, height] = [720, 60, 72, 200];
  const largest = Math.max(...series.flatMap(({ values }) => values));
  const unit = 10 ** Math.floor(Math.log10(largest));
  const ticks = Array.from({ length: Math.floor(largest / unit) + 1 }, (_, index) => index * unit);
  const y = (value) => top + height - value / largest * height;
  const wide = (width - left - 20) / groups.length;
  const bar = wide * 0.8 / series.length;
  return picture(width, top + height + 34, title, [
    text(10, 20, title, ' font-weight="600"'),
    series.map(({ name, kind }, index) => [`<rect x="${left + index * 200}" y="32" width="12" height="12" class="${kind}"/>`, text(left + 18 + index * 200, 43, name)]),
    ticks.map((tick) => [`<line x1="${left}" x2="${width - 20}" y1="${at(y(tick))}" y2="${at(y(tick))}" class="l"/>`, text(left - 8, y(tick) + 4, tick.toLocaleString('en-US'), ` class="q"${right}`)]),
    groups.map((group, at0) => [text(left + (at0 + 0.5) * wide, top + height + 20, group, middle), series.map(({ values, kind }, index) => {
      const start = left + at0 * wide + wide * 0.1 + index * bar;
      return [`<rect x="${at(start)}" y="${at(y(values[at0]))}" width="${at(bar - 3)}" height="${at(top + height - y(values[at0]))}" class="${kind}"/>`, text(start + bar / 2, y(values[at0]) - 4, values[at0].toLocaleString('en-US'), ` class="q"${middle}`)];
    })]),
  ]);
}

/** File name → SVG text. */
export function charts() {
  const page = readFileSync(join(root, 'docs', 'performance.md'), 'utf8');
  const depth = table(page, 'load', 'Recua', 'llama-server', 'ratio');
  const clients = table(page, 'clients', 'Recua', 'llama-server', "`llama-batched-bench` (no server, none of Recua's kernels)");
  const column = (rows, index) => rows.map((row) => number(row[index]));
  return {
    'bench-beside-llama-server.svg': besideLlamaServer(page),
    'bench-clients.svg': bars('Tokens/s of all clients together, nano', clients.map(([count]) => count === '1' ? '1 client' : `${count} clients`), [
      { name: 'Recua', kind: 'a', values: column(clients, 1) }, { name: 'llama-server', kind: 'b', values: column(clients, 2) }, { name: 'llama-batched-bench', kind: 'c', values: column(clients, 3) },
    ]),
    'bench-depth.svg': bars('Tokens/s of answers after a prompt of so many words, 135m', depth.map(([load]) => load), [
      { name: 'Recua', kind: 'a', values: column(depth, 1) }, { name: 'llama-server', kind: 'b', values: column(depth, 2) },
    ]),
  };
}

export function writeCharts() {
  for (const [name, svg] of Object.entries(charts())) {
    writeFileSync(join(root, 'docs', 'images', name), svg);
    console.log(join('docs', 'images', name));
  }
}

if (isProgram(import.meta.url)) writeCharts();
