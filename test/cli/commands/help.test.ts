import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { spawn as spawnPty } from '@lydell/node-pty';
import stringWidth from 'string-width';
import { allPlaces } from '#recua/cli/command-tree.js';
import { command } from '#recua/cli/command.js';
import { text, variableNames } from '#recua/cli/flags/flags.js';
import { groupsOf } from '#recua/cli/flags/groups.js';
import { commandHelp } from '#recua/cli/help.js';
import { allCommands } from '#recua/cli/table.js';
import { mainPath, recua, root } from '../recua.js';

const all = await allCommands();

t.test('help of every command lists its flags with variables and defaults, its commands and its examples', (t) => {
  for (const place of allPlaces(all)) {
    const help = commandHelp(place, Infinity);
    t.ok(help.startsWith(`Usage: recua ${place.path}`), place.path);
    for (const flag of Object.values(place.command.flags)) {
      for (const name of flag.names) t.ok(help.includes(name), `${place.path} ${name}`);
      t.equal(help.includes(`[${variableNames(flag)[0]}${flag.off ? '=0' : ''}]`), !flag.perCall, `${place.path} ${flag.names[0]} tells its variable`);
    }
    for (const [line, does] of place.command.examples ?? []) t.ok(help.includes(line) && help.includes(does), line);
    for (const inner of place.command.subcommands ?? []) t.ok(help.includes(`  ${inner.name} `) && help.includes(inner.summary), inner.name);
  }
  t.end();
});

t.test('a default is told once: by the text of the flag, or after it', async (t) => {
  for (const [args, told] of [[['load'], /--keep-alive <seconds> .*; by default as the server is set\n/], [['chat'], /--context-size.*by default as much of that as memory allows \[/], [['serve', 'status'], /5 starting or stopping\./], [['ps'], /Include unloaded models\n/]] as const) {
    t.match((await recua(['help', ...args])).stdout, told);
  }
  for (const place of allPlaces(all)) t.notMatch(commandHelp(place, Infinity), /by default [^\n]*\(default /, place.path);
});

t.test('the overview says where the documentation is; packages have every page that a text names', async (t) => {
  const { stdout } = await recua(['help']);
  const folder = /\nDocumentation: (.*)\n$/.exec(stdout)?.[1] ?? '';
  const { files } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { files: string[] };
  t.ok(files.includes('docs/*.md'), 'docs/*.md is packed');
  const texts = allPlaces(all).map((place) => commandHelp(place, Infinity)).join('');
  const pages = [...texts.matchAll(/\bdocs\/([\w-]+\.md)/g)].map(([, page]) => page!);
  t.ok(pages.includes('deployment.md') && pages.includes('watching.md'), pages.join(' '));
  for (const page of pages) t.ok(existsSync(join(folder, page)), page);
});

t.test('every example is a valid command line', (t) => {
  const examples = allPlaces(all).flatMap(({ command: one }) => one.examples ?? []);
  t.ok(examples.length > 5);
  for (const [line] of examples) t.match(line, /\brecua [a-z]/);
  t.end();
});

t.test('help is wrapped by the width that a terminal shows', (t) => {
  const wide = command({
    name: 'wide', aliases: [], operands: '<模型>', summary: '模型的名字很长'.repeat(10), details: 'x'.repeat(100),
    flags: { name: text(['--name'], '名字', '一个很长的说明'.repeat(8), '默认') }, run: () => Promise.resolve(0),
  });
  const lines = commandHelp({ command: wide, path: 'wide' }, 50).split('\n');
  t.same(lines.filter((line) => stringWidth(line) > 50), []);
  t.ok(lines.length > 10);
  for (const place of allPlaces(all)) {
    // An example is shown exactly as it is typed.
    const typed = new Set((place.command.examples ?? []).map(([line]) => `  ${line}`));
    const names = /^ {2}-/;
    t.same(commandHelp(place, 60).split('\n').filter((line) => stringWidth(line) > 60 && !typed.has(line) && !names.test(line)), [], place.path);
  }
  t.end();
});

t.test('help fits the width of a terminal; elsewhere each flag has one line', async (t) => {
  const pty = spawnPty(process.execPath, [mainPath, 'help', 'api'], { cols: 70, rows: 50, cwd: root });
  let seen = '';
  pty.onData((data) => { seen += data; });
  await new Promise<void>((resolve) => pty.onExit(() => resolve()));
  const lines = seen.split('\r\n');
  t.same(lines.filter((line) => stringWidth(line) > 70 && !line.startsWith('  -')), []);
  t.match(seen, /temperature|Temperature/);
  t.match((await recua(['help', 'api'])).stdout, /--ping-interval <seconds> .*\(default 10\) \[RECUA_PING_INTERVAL\]\n/);
});

t.test('help lists exit codes, and help environment lists files and variables', async (t) => {
  t.match((await recua(['help'])).stdout, /Exit codes: 0 done, 1 failed, 2 usage error, 130 stopped by Ctrl-C/);
  const { code, stdout } = await recua(['help', 'environment']);
  t.equal(code, 0);
  for (const name of ['SERVICE_HOME', 'HUB_TOKEN', 'HUB_HOME', 'RECUA_CONFIG', 'NO_COLOR']) t.match(stdout, new RegExp(`^ {2}${name} `, 'm'));
  t.match(stdout, /config\.json/);
});

t.test('help of a command with many flags begins with the most used, and lists each once in a group', (t) => {
  const grouped = allPlaces(all).filter(({ command: one }) => one.often !== undefined);
  t.same(grouped.map(({ path }) => path), ['run', 'chat', 'api', 'serve start', 'serve restart', 'serve install']);
  for (const place of allPlaces(all)) {
    const { flags, often } = place.command;
    t.ok(often !== undefined || Object.keys(flags).length <= 15, `${place.path} has too many flags for one group`);
    const groups = groupsOf(place.command);
    t.same(
      groups
        .flatMap((group) => group.flags)
        .map(({ names }) => names[0])
        .sort(),
      Object.values(flags)
        .map(({ names }) => names[0])
        .sort(),
      place.path,
    );
    if (!often) continue;
    t.same(groups[0]!.flags, often.map((key) => flags[key]));
    t.ok(often.length <= 12);
    t.notOk(groups.some(({ title }) => title === 'Others'), `${place.path}: a flag has no group in flags/groups.ts`);
    const help = commandHelp(place, 80);
    const at = ['Flags used most', 'Examples', ...groups.slice(1).map(({ title }) => title)].filter((title) => title !== 'Examples' || place.command.examples).map((title) => help.indexOf(`\n${title}\n`));
    t.notOk(at.includes(-1));
    t.same(at, [...at].sort((a, b) => a - b), `${place.path}: first what is used most, then examples, then the groups`);
  }
  t.end();
});
