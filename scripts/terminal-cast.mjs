// `node scripts/terminal-cast.mjs`: records docs/images/terminal.svg, the built command line in a
// real shell on a pseudo-terminal, with the built-in model. `scenes` has the typed commands; all
// other text is the programs' output. Waits are shortened; nothing else is changed.
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { createRequire } from 'node:module';
import { place, root } from './place.mjs';

if (process.argv.length > 2) {
  console.error('Usage: node scripts/terminal-cast.mjs\nRecords docs/images/terminal.svg anew, without options.');
  process.exit(process.argv.includes('--help') ? 0 : 1);
}

const require = createRequire(join(place.nodeModules, 'x'));
const pty = require('@lydell/node-pty');
const { Terminal } = require('@xterm/headless');

const columns = 92;
const rows = 16;
/** Each is typed at this prompt in the last row, after clearing the screen if it says so. */
const scenes = [
  { type: 'recua run builtin "Tell me a joke."' },
  { type: 'recua run builtin "Is 7 larger than 5?" -g \'root ::= "yes" | "no"\'' },
  { type: 'recua chat builtin' },
  { type: 'My name is Ana.', at: /^> ?$/ },
  { type: 'What is my name?', at: /^> ?$/ },
  { type: '/exit', at: /^> ?$/ },
  { type: 'clear', quick: true },
  { type: 'recua serve start builtin --port 9000' },
  { type: 'curl -s localhost:9000/v1/chat/completions -H \'Content-Type: application/json\' \\\n  -d \'{"messages":[{"role":"user","content":"A color?"}],"choice":["red","blue"]}\' |\n  grep -o \'"message":{[^}]*\'' },
  { type: 'recua ps' },
  { type: 'recua serve stop' },
];
/** How long a keystroke, a screen change and a command's answer are shown, in ms. */
const show = { key: 40, change: 80, answer: 1300, end: 3500 };

const folder = mkdtempSync(join(tmpdir(), 'recua-cast-'));
const program = join(folder, 'recua');
writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${join(place.dist, 'cli', 'main.js')}' "$@"\n`);
chmodSync(program, 0o755);

const env = { PATH: `${folder}:${process.env.PATH}`, HOME: folder, SERVICE_HOME: join(folder, 'models'), TERM: 'xterm-256color', PS1: '\\[\\e[32m\\]$\\[\\e[0m\\] ', PS2: '', LANG: 'C.UTF-8' };
const terminal = new Terminal({ cols: columns, rows, allowProposedApi: true });
const shell = pty.spawn('bash', ['--norc', '--noprofile', '-i'], { name: 'xterm-256color', cols: columns, rows, cwd: folder, env });
shell.onData((data) => terminal.write(data));
terminal.onData((answer) => shell.write(answer));

/** A cell's style besides its character. */
function look(cell) {
  return [cell.isFgPalette() ? cell.getFgColor() : cell.isFgRGB() ? `#${cell.getFgColor().toString(16).padStart(6, '0')}` : '', cell.isBold() ? 'b' : '', cell.isDim() ? 'd' : '', cell.isInverse() ? 'i' : ''].join(' ');
}

/** The screen: each row as runs `[column, look, text]`. */
function screen() {
  const buffer = terminal.buffer.active;
  return Array.from({ length: rows }, (_, y) => {
    const line = buffer.getLine(buffer.viewportY + y);
    const runs = [];
    for (let x = 0; x < columns; x++) {
      const cell = line?.getCell(x);
      if (!cell || cell.getWidth() === 0) continue;
      const text = cell.getChars() || ' ';
      const last = runs.at(-1);
      if (last && last[1] === look(cell)) last[2] += text;
      else runs.push([x, look(cell), text]);
    }
    return runs.map(([x, as, text]) => [x, as, as.endsWith('i') ? text : text.trimEnd()]).filter(([, , text]) => text !== '');
  });
}

const plain = (row) => row.map(([, , text]) => text).join(' ').trim();
/** The cursor's row. */
const current = () => plain(screen()[terminal.buffer.active.cursorY]);

const frames = [];
let clock = 0;
function frame(ms) {
  const rowsNow = screen();
  const text = JSON.stringify(rowsNow);
  if (frames.at(-1)?.text !== text) frames.push({ text, rows: rowsNow, at: clock });
  clock += ms;
}

/** Frames of the changes, until the prompt is back and the screen is stable. */
async function settle(prompt) {
  let same = 0;
  for (let tries = 0; same < 8 || !prompt.test(current()); tries++) {
    if (tries > 600) throw new Error(`The prompt ${prompt} does not appear; the last row is: ${current()}`);
    await wait(50);
    const before = frames.at(-1)?.text;
    if (JSON.stringify(screen()) === before) same++;
    else {
      same = 0;
      frame(show.change);
    }
  }
}

try {
  await settle(/^\$$/);
  clock += 600;
  for (const [index, { type, quick }] of scenes.entries()) {
    for (const keys of type.match(/\n|.{1,2}/g)) {
      shell.write(keys === '\n' ? '\r' : keys);
      await wait(25);
      if (!quick) frame(show.key * keys.length);
    }
    shell.write('\r');
    await wait(150);
    const next = scenes[index + 1]?.at ?? /^\$$/;
    await settle(next);
    clock += quick ? 100 : show.answer;
  }
  clock += show.end;
} finally {
  shell.kill();
  spawnSync(program, ['serve', 'stop', '--force'], { env, stdio: 'ignore' });
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}

const size = { font: 14, width: 8.43, height: 19, pad: 16 };
const colors = ['#484f58', '#ff7b72', '#7ee787', '#e3b341', '#79c0ff', '#d2a8ff', '#56d4dd', '#d0d7de', '#8b949e', '#ffa198', '#9be9a8', '#f2cc60', '#a5d6ff', '#e2c5ff', '#b3f0ff', '#ffffff'];
const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** Each text with its position and time: `{ y, runs, from, to }`. */
function spans() {
  const open = new Map();
  const done = [];
  for (const { rows: now, at } of [...frames, { rows: [], at: clock }]) {
    for (let y = 0; y < rows; y++) {
      const text = JSON.stringify(now[y] ?? []);
      const before = open.get(y);
      if (before?.text === text) continue;
      if (before) done.push({ ...before, to: at });
      open.delete(y);
      if (now[y]?.length) open.set(y, { text, y, runs: now[y], from: at });
    }
  }
  return done;
}

function styleOf(as) {
  const [color, ...marks] = as.split(' ');
  const fill = marks.includes('i') ? '#0d1117' : color.startsWith('#') ? color : color === '' ? undefined : colors[Number(color)] ?? '#d0d7de';
  return `${fill ? ` fill="${fill}"` : ''}${marks.includes('b') ? ' font-weight="700"' : ''}${marks.includes('d') ? ' opacity=".6"' : ''}`;
}

const percent = (ms) => `${Number((ms / clock * 100).toFixed(2))}%`;
const all = spans();
const styles = [];
const body = all.map(({ y, runs, from, to }, index) => {
  const stays = to === clock;
  styles.push(`@keyframes k${index}{${from > 0 ? `0%{visibility:hidden}` : ''}${percent(from)}{visibility:visible}${stays ? '' : `${percent(to)}{visibility:hidden}`}}#r${index}{animation-name:k${index}}`);
  const texts = runs.map(([x, as, text]) => `${as.endsWith('i') ? `<rect x="${(x * size.width).toFixed(1)}" y="${y * size.height - 14}" width="${(text.length * size.width).toFixed(1)}" height="${size.height}" fill="#d0d7de"/>` : ''}<text x="${(x * size.width).toFixed(1)}" y="${y * size.height}" textLength="${(text.length * size.width).toFixed(1)}"${styleOf(as)}>${escape(text)}</text>`);
  return `<g id="r${index}" class="${stays ? 'r s' : 'r'}">${texts.join('')}</g>`;
});
const [width, height] = [Math.ceil(columns * size.width + 2 * size.pad), rows * size.height + 2 * size.pad];
const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="Recua on a terminal: a prompt, a chat, a server">
<style>text{font:${size.font}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}
.r{visibility:hidden;animation:${(clock / 1000).toFixed(1)}s step-end infinite}@media (prefers-reduced-motion){.r{animation:none!important}.s{visibility:visible}}
${styles.join('\n')}</style>
<rect width="${width}" height="${height}" rx="8" fill="#0d1117"/>
<g fill="#d0d7de" transform="translate(${size.pad} ${size.pad + 14})">
${body.join('\n')}
</g></svg>
`;
writeFileSync(join(root, 'docs', 'images', 'terminal.svg'), svg);
console.log(`docs/images/terminal.svg: ${(clock / 1000).toFixed(1)} s, ${(svg.length / 1000).toFixed(0)} kB`);
for (const { rows: last } of [frames.findLast(({ text }) => text.includes('Ana')), frames.at(-1)].filter(Boolean)) console.log(`\n${last.map(plain).filter((line) => line !== '').join('\n')}`);
