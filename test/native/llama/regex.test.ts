// native/llama/regex: Recua's matcher against std::regex, with every pattern in llama.cpp's source,
// by means of regex-check.cpp.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { release, root } from '../fake-backend.js';

const skip = process.platform === 'win32' ? 'needs c++' : false;

interface Result {
  groups: number;
  compared: number;
  differences: number;
  mostSteps: number;
}

t.test('words are split as std::regex splits them, in steps proportional to the text', { skip }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'recua-regex-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const llama = join(root, 'vendor', 'llama.cpp', 'src');
  const source = readFileSync(join(llama, 'llama-vocab.cpp'), 'utf8');
  const groups = [...source.matchAll(/regex_exprs = (\{\n[\s\S]*?\n {16}\});/g)].map(([, group]) => group);
  t.ok(groups.length >= 25, `found ${groups.length} lists of patterns`);
  t.equal(groups.length, source.match(/regex_exprs = \{/g)?.length, 'which are all');
  writeFileSync(join(folder, 'groups.inc'), groups.join(',\n'));
  const program = join(folder, 'check');
  execFileSync(process.env['CXX'] || 'c++', [
    '-std=c++17', '-O1', '-w', `-I${join(root, 'native', 'llama')}`, `-I${llama}`, `-DGROUPS="${join(folder, 'groups.inc')}"`,
    join(root, 'test', 'native', 'regex-check.cpp'), '-o', program, `-L${release}`, '-lllama', `-Wl,-rpath,${release}`,
  ], { stdio: ['ignore', 'inherit', 'inherit'] });
  const run = (...args: string[]) => JSON.parse(execFileSync(program, args, { encoding: 'utf8' })) as Result;

  const { compared, differences } = run();
  t.ok(compared > 1000, `compared ${compared} texts`);
  t.equal(differences, 0);
  const { mostSteps } = run('count');
  t.ok(mostSteps > 0 && mostSteps < 200, `at most ${mostSteps} steps for each of 16,384 characters`);
});
