import t from 'tap';
import type { Test } from 'tap';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { completionTree } from '#recua/cli/completion/words.js';
import { allCommands } from '#recua/cli/table.js';
import { model, put } from '../../models/hub-layout.js';
import { Pty } from '../pty.js';
import { mainPath, recua, root } from '../recua.js';

const all = await allCommands();

const has = (shell: string) => spawnSync(shell, ['--version']).status === 0;

/** A folder for PATH that contains the command, and a store with models. */
function install(t: Test): NodeJS.ProcessEnv {
  const folder = mkdtempSync(join(tmpdir(), 'recua-completion-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'bin', 'recua'), `#!/bin/sh\nexec '${process.execPath}' '${mainPath}' "$@"\n`, { mode: 0o755 });
  const hub = join(folder, 'hub');
  for (const kind of ['Q4_K_M', 'Q8_0']) put(hub, { repo: 'acme/toy', file: `toy-${kind}.gguf`, bytes: model(kind) });
  return { ...process.env, PATH: `${folder}/bin:${process.env['PATH']}`, SERVICE_HOME: folder, HUB_HOME: '', HF_HUB_CACHE: '' };
}

const bashScript = recua(['completion', 'bash']).then(({ stdout }) => stdout);

/** What bash offers for a line; its last word is being completed. */
async function bash(t: Test, words: string[], cwd = root, env = process.env): Promise<string[]> {
  const script = await bashScript;
  const quoted = ['recua', ...words].map((word) => `'${word}'`).join(' ');
  const run = spawnSync('bash', ['--norc', '--noprofile', '-c', `${script}\nCOMP_WORDS=(${quoted}); COMP_CWORD=${words.length}; _recua; printf '%s\\n' "\${COMPREPLY[@]}"`], { encoding: 'utf8', cwd, env });
  t.equal(run.stderr, '');
  return run.stdout.split('\n').filter((line) => line !== '').sort();
}

t.test('bash completes commands, commands in a group, and their flags', async (t) => {
  const commands = await bash(t, ['']);
  for (const { name } of all) t.ok(commands.includes(name), name);
  t.same(await bash(t, ['ver']), ['version']);
  t.same(await bash(t, ['serve', '']), ['help', 'install', 'logs', 'restart', 'start', 'status', 'stop', 'uninstall']);
  t.same(await bash(t, ['serve', 'logs', '--f']), ['--follow']);
  t.same(await bash(t, ['api', '--no']), ['--no-mmap', '--no-ui']);
  t.same(await bash(t, ['serve', 'start', '--mlock', '--ctx']), ['--ctx-size']);
  t.same(await bash(t, ['help', 'conf']), ['config']);
  t.same(await bash(t, ['completion', '']), ['bash', 'fish', 'zsh']);
  t.same(await bash(t, ['cluster', 'config', '']), ['haproxy', 'kubernetes', 'nginx']);
  t.same(await bash(t, ['cache', '']), ['clear', 'ls']);
  t.same(await bash(t, ['help', 'serve', 'st']), ['start', 'status', 'stop']);
  t.same(await bash(t, ['help', 'cluster', '']), ['config']);
  t.same(await bash(t, ['config', 'serve', 'sta']), ['start', 'status']);
  t.same(await bash(t, ['config', 'pa']), ['path']);
  t.same(await bash(t, ['help', 'show', '']), []);
});

t.test('bash completes the values of flags: choices, files, models', async (t) => {
  const folder = t.testdir();
  writeFileSync(join(folder, 'my model.gguf'), '');
  writeFileSync(join(folder, 'notes.txt'), '');
  mkdirSync(join(folder, 'models'));
  const env = install(t);
  const some = ['acme/toy:Q4_K_M', 'acme/toy:Q8_0', 'builtin', 'models', 'my model.gguf'];
  t.same(await bash(t, ['api', '--flash-attn', '']), ['auto', 'off', 'on']);
  t.same(await bash(t, ['api', '-fa', 'o']), ['off', 'on']);
  t.same(await bash(t, ['api', '--flash-attn', '=', 'a']), ['auto'], 'as bash splits --flash-attn=a');
  t.same(await bash(t, ['api', '--flash-attn', '=']), ['auto', 'off', 'on']);
  t.same(await bash(t, ['api', '--chat-template-file', 'm'], folder), ['models', 'my model.gguf']);
  t.same(await bash(t, ['serve', 'start', '-m', ''], folder, env), some);
  t.same(await bash(t, ['run', ''], folder, env), some);
  t.same(await bash(t, ['run', ''], folder, { ...env, PATH: process.env['PATH'] }), ['models', 'my model.gguf'], 'silent where the command is not found');
  t.same(await bash(t, ['api', '--port', ''], folder), [], 'a number is nothing to complete');
});

t.test('model names are those of the store, with their aliases', async (t) => {
  const env = install(t) as Record<string, string>;
  t.match(await recua(['alias', 'toys', 'acme/toy:Q8_0'], '', { env }), { code: 0 });
  t.match(await recua(['completion', '--models'], '', { env }), { code: 0, stdout: 'builtin\ntoys\nacme/toy:Q4_K_M\nacme/toy:Q8_0\n', stderr: '' });
  writeFileSync(join(env['SERVICE_HOME']!, 'recua', 'aliases.json'), '{');
  t.match(await recua(['completion', '--models'], '', { env }), { code: 0, stdout: '', stderr: '' }, 'silent where something is wrong');
});

t.test('bash completes no name that it would execute', async (t) => {
  const env = install(t);
  const hub = join(env['SERVICE_HOME']!, 'hub');
  for (const file of ['w`id`.gguf', 'a;b.gguf', '$(id).gguf', '<x>.gguf']) put(hub, { repo: 'acme/odd', file, bytes: model('Q8_0') });
  const { stdout } = await recua(['completion', '--models'], '', { env: env as Record<string, string> });
  t.match(stdout, /acme\/odd/);
  t.same(await bash(t, ['show', 'acme/'], root, env), ['acme/toy:Q4_K_M', 'acme/toy:Q8_0']);
  t.same(await bash(t, ['show', 'acme/odd', ':'], root, env), []);
});

t.test('bash completes models after a colon, which splits words in bash', async (t) => {
  const env = install(t);
  const complete = (...words: string[]) => bash(t, words, root, env);
  t.same(await complete('show', 'acme/'), ['acme/toy:Q4_K_M', 'acme/toy:Q8_0']);
  t.same(await complete('rm', 'acme/toy', ':'), ['Q4_K_M', 'Q8_0']);
  t.same(await complete('load', 'acme/toy', ':', 'Q4'), ['Q4_K_M']);
  t.same(await complete('api', '-m', 'acme/toy', ':', 'Q8'), ['Q8_0']);
  t.same(await complete('api', '--model', '=', 'acme/toy', ':', 'Q8'), ['Q8_0']);
  for (const command of ['run', 'chat', 'api', 'unload', 'stop', 'cp', 'alias']) t.same(await complete(command, 'acme/toy'), ['acme/toy:Q4_K_M', 'acme/toy:Q8_0'], command);
});

/** Saves two chats, whose content completion does not read. */
function saveChats(home: string): void {
  mkdirSync(join(home, 'sessions'), { recursive: true });
  for (const name of ['plan', 'two words']) writeFileSync(join(home, 'sessions', `${name}.json`), '{}');
}

t.test('bash completes saved chats', async (t) => {
  const env = install(t);
  t.same(await bash(t, ['sessions', 'show', ''], root, env), [], 'there is none');
  saveChats(env['SERVICE_HOME']!);
  for (const words of [['sessions', 'show'], ['sessions', 'rm', 'plan'], ['sessions', 'export'], ['chat', '--resume']]) {
    t.same(await bash(t, [...words, ''], root, env), ['plan', 'two\\ words'], words.join(' '));
  }
  t.same(await bash(t, ['chat', '--resume', '=', 'pl'], root, env), ['plan']);
});

t.test('zsh and fish complete models and saved chats', async (t) => {
  const env = install(t);
  const folder = env['SERVICE_HOME']!;
  saveChats(folder);
  if (has('fish')) {
    const { stdout: script } = await recua(['completion', 'fish']);
    const run = spawnSync('fish', ['--no-config', '-c', `${script}\ncomplete -C 'recua show acme/'`], { encoding: 'utf8', cwd: folder, env });
    t.same(run.stdout.trim().split('\n').map((line) => line.split('\t')[0]).sort(), ['acme/toy:Q4_K_M', 'acme/toy:Q8_0']);
    const named = spawnSync('fish', ['--no-config', '-c', `${script}\ncomplete -C 'recua cluster config '; complete -C 'recua help serve sto'`], { encoding: 'utf8', cwd: folder, env });
    t.same(named.stdout.trim().split('\n').map((line) => line.split('\t')[0]).sort(), ['haproxy', 'kubernetes', 'nginx', 'stop']);
    mkdirSync(join(folder, 'here/sub folder'), { recursive: true });
    for (const name of ['a.gguf', 'notes.txt']) writeFileSync(join(folder, 'here', name), '');
    const files = spawnSync('fish', ['--no-config', '-c', `${script}\ncomplete -C 'recua run here/'`], { encoding: 'utf8', cwd: folder, env });
    t.same(files.stdout.trim().split('\n').sort(), ['here/a.gguf', 'here/sub folder/'], 'no other files');
    const value = spawnSync('fish', ['--no-config', '-c', `${script}\ncomplete -C 'recua api --model=here/'`], { encoding: 'utf8', cwd: folder, env });
    t.same(value.stdout.trim().split('\n').map((line) => line.split('\t')[0]).sort(), ['--model=here/a.gguf', '--model=here/sub folder/']);
    const chats = spawnSync('fish', ['--no-config', '-c', `${script}\ncomplete -C 'recua sessions rm '; complete -C 'recua chat --resume '`], { encoding: 'utf8', cwd: folder, env });
    t.same(chats.stdout.trim().split('\n').map((line) => line.split('\t')[0]).sort(), ['plan', 'plan', 'two words', 'two words']);
  }
  if (has('zsh')) {
    const { stdout: script } = await recua(['completion', 'zsh']);
    writeFileSync(join(folder, 'recua.zsh'), script);
    const pty = new Pty(['-f'], { program: 'zsh', env: { ...env as Record<string, string>, PS1: '> ' }, cwd: folder });
    await pty.until(/^>/m);
    pty.type('autoload -Uz compinit && compinit -u -D && source recua.zsh && echo rea""dy\r');
    await pty.until(/^ready/m);
    pty.type('recua show acme/toy:Q8\t');
    await pty.until(/recua show acme\/toy:Q8_0/);
    pty.type('\x15recua cluster config ku\t; echo; recua help serve stat\t');
    await pty.until(/recua cluster config kubernetes ?; echo; recua help serve status/);
    pty.type('\x15recua chat --resume pl\t; echo; recua sessions rm two\t');
    await pty.until(/recua chat --resume plan ?; echo; recua sessions rm two\\ words/);
    pty.kill('SIGKILL');
  }
});

for (const shell of ['bash', 'zsh', 'fish']) {
  t.test(`the ${shell} script knows every command and flag, and is valid`, async (t) => {
    const { code, stdout, stderr } = await recua(['completion', shell]);
    t.strictSame({ code, stderr }, { code: 0, stderr: '' });
    for (const { path, flags } of completionTree(all)) {
      for (const name of path.split(' ')) t.ok(stdout.includes(name), path);
      for (const name of flags.flatMap(({ names }) => names)) {
        const written = shell !== 'fish' ? name : name.startsWith('--') ? `-l ${name.slice(2)}` : name.length > 2 ? `-o ${name.slice(1)}` : `-s ${name.slice(1)}`;
        t.ok(stdout.includes(written), `${path} ${written}`);
      }
    }
    const path = join(t.testdir(), 'script');
    writeFileSync(path, stdout);
    if (has(shell)) t.match(spawnSync(shell, ['-n', path], { encoding: 'utf8' }), { status: 0, stderr: '' });
    // No quotation mark in a help text may end a word of the script.
    t.equal((stdout.replaceAll('\'\\\'\'', '').replaceAll('\\\'', '').match(/'/g) ?? []).length % 2, 0);
  });
}

t.test('completion without a shell, or for an unknown one, exits 2', async (t) => {
  t.match(await recua(['completion']), { code: 2, stdout: '', stderr: /Name one shell \(bash, zsh, fish\)\./ });
  t.match(await recua(['completion', 'bsh']), { code: 2, stderr: /Did you mean bash\?/ });
});
