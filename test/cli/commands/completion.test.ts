import t from 'tap';
import type { Test } from 'tap';
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { completionTree } from '#recua/cli/completion/words.js';
import { allCommands } from '#recua/cli/table.js';
import { recua, root } from '../recua.js';

const all = await allCommands();

const has = (shell: string) => spawnSync(shell, ['--version']).status === 0;

/** What bash offers after a line, whose last word is the one being completed. */
async function bash(t: Test, words: string[], cwd = root): Promise<string[]> {
  const { stdout: script } = await recua(['completion', 'bash']);
  const quoted = ['recua', ...words].map((word) => `'${word}'`).join(' ');
  const run = spawnSync('bash', ['--norc', '--noprofile', '-c', `${script}\nCOMP_WORDS=(${quoted}); COMP_CWORD=${words.length}; _recua; printf '%s\\n' "\${COMPREPLY[@]}"`], { encoding: 'utf8', cwd });
  t.equal(run.stderr, '');
  return run.stdout.split('\n').filter((line) => line !== '').sort();
}

t.test('bash completes commands, commands in a group, and their flags', async (t) => {
  const commands = await bash(t, ['']);
  for (const { name } of all) t.ok(commands.includes(name), name);
  t.same(await bash(t, ['ver']), ['version']);
  t.same(await bash(t, ['serve', '']), ['help', 'logs', 'restart', 'start', 'status', 'stop']);
  t.same(await bash(t, ['serve', 'logs', '--f']), ['--follow']);
  t.same(await bash(t, ['api', '--no']), ['--no-mmap']);
  t.same(await bash(t, ['serve', 'start', '--mlock', '--ctx']), ['--ctx-size']);
  t.same(await bash(t, ['help', 'conf']), ['config']);
  t.same(await bash(t, ['completion', '']), ['bash', 'fish', 'zsh']);
});

t.test('bash completes the values of flags: choices, files, models', async (t) => {
  const folder = t.testdir();
  writeFileSync(join(folder, 'my model.gguf'), '');
  mkdirSync(join(folder, 'models'));
  t.same(await bash(t, ['api', '--flash-attn', '']), ['auto', 'off', 'on']);
  t.same(await bash(t, ['api', '-fa', 'o']), ['off', 'on']);
  t.same(await bash(t, ['api', '--flash-attn', '=', 'a']), ['auto'], 'as bash splits --flash-attn=a');
  t.same(await bash(t, ['api', '--flash-attn', '=']), ['auto', 'off', 'on']);
  t.same(await bash(t, ['api', '--chat-template-file', 'm'], folder), ['models', 'my model.gguf']);
  t.same(await bash(t, ['serve', 'start', '-m', ''], folder), ['builtin', 'models', 'my model.gguf']);
  t.same(await bash(t, ['run', ''], folder), ['builtin', 'models', 'my model.gguf']);
  t.same(await bash(t, ['api', '--port', ''], folder), [], 'a number is nothing to complete');
});

for (const shell of ['bash', 'zsh', 'fish']) {
  t.test(`the ${shell} script knows every command and flag, and is sound`, async (t) => {
    const { code, stdout, stderr } = await recua(['completion', shell]);
    t.strictSame({ code, stderr }, { code: 0, stderr: '' });
    for (const { path, flags } of completionTree(all)) {
      for (const name of path.split(' ')) t.ok(stdout.includes(name), path);
      for (const name of flags.flatMap(({ names }) => names)) {
        const written = shell !== 'fish' ? name : name.startsWith('--') ? `-l ${name.slice(2)}` : name.length > 2 ? `-o ${name.slice(1)}` : `-s ${name.slice(1)}`;
        t.ok(stdout.includes(written), `${path} ${written}`);
      }
    }
    if (has(shell)) t.match(spawnSync(shell, ['-n'], { input: stdout, encoding: 'utf8' }), { status: 0, stderr: '' });
    // No quotation mark of a help text may end a word of the script.
    t.equal((stdout.replaceAll('\'\\\'\'', '').replaceAll('\\\'', '').match(/'/g) ?? []).length % 2, 0);
  });
}

t.test('completion of no, or an unknown, shell exits 2', async (t) => {
  t.match(await recua(['completion']), { code: 2, stdout: '', stderr: /Expected one shell of bash, zsh, fish, got none/ });
  t.match(await recua(['completion', 'bsh']), { code: 2, stderr: /Did you mean bash\?/ });
});
