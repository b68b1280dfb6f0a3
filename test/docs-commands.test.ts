// Every shell block of the documentation runs here without a network, or is marked ```sh no-test.
// In marked blocks, and in docs/cli.md, the commands are checked: the flags, variables, scripts,
// files and routes they name exist.
import t, { type Test } from 'tap';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { otherVariables } from '#recua/cli/flags/environment.js';
import { parseArguments } from '#recua/cli/flags/arguments.js';
import { variableNames } from '#recua/cli/flags/flags.js';
import { allPlaces, findPlace } from '#recua/cli/command-tree.js';
import { allCommands } from '#recua/cli/table.js';
import { describeApi } from '#recua/server/app.js';
import { makeHome } from './cli/home.js';
import { mainPath, root, start } from './cli/recua.js';
import { shellCommands } from './shell-words.js';

const text = (path: string) => readFileSync(join(root, path), 'utf8');
const markdownOf = (folder: string) => readdirSync(join(root, folder)).filter((name) => name.endsWith('.md')).map((name) => `${folder}/${name}`);
const pages = ['README.md', 'CONTRIBUTING.md', ...markdownOf('docs'), ...markdownOf('docs/design')];

interface Block {
  page: string;
  /** `sh`, or `sh no-test`. */
  kind: string;
  code: string;
}

const blocks: Block[] = pages.flatMap((page) => [...text(page).matchAll(/^ *```(\S[^\n]*)\n([^]*?)^ *```$/gm)].map(([, kind, code]) => ({ page, kind: kind!, code: code! })));
const shell = blocks.filter(({ kind }) => kind === 'sh' || kind === 'sh no-test');
const isGenerated = ({ page }: Block) => page === 'docs/cli.md' || page === 'docs/http.md';

const all = await allCommands();
const { document } = describeApi();
const { scripts, peerDependencies: peers } = JSON.parse(text('package.json')) as { scripts: Record<string, string>; peerDependencies: Record<string, string> };
const packages = JSON.parse(text('npm/targets.json')) as { targets?: unknown };
const variables = new Set([
  ...otherVariables.map(([name]) => name),
  ...allPlaces(all).flatMap(({ command }) => Object.values(command.flags).flatMap(variableNames)),
]);

/** Programs of others, which are not checked. */
const foreign = ['git', 'sudo', 'journalctl', 'docker', 'gdb', 'perf', 'export', 'claude', 'cline', 'qwen', 'aider', 'source', 'coredumpctl', 'openssl', 'tr', 'sha256sum', 'systemctl', 'kubectl'];

/** Throws if a `recua` command line would be refused. */
function readRecua(words: readonly string[]): void {
  if (words.length === 0 || words[0] === 'help' || words[0] === 'version') return;
  let depth = 1;
  while (findPlace(all, words.slice(0, depth)).command.subcommands) depth++;
  const { command, path } = findPlace(all, words.slice(0, depth));
  parseArguments(path, command.flags, words.slice(depth));
}

/** Whether the API has this route; `$ID` stands for any part of a path. */
function hasRoute(method: string, path: string): boolean {
  return Object.entries(document.paths).some(([route, methods]) => {
    const pattern = new RegExp(`^${route.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{\w+\}/g, '[^/]+')}$`);
    return pattern.test(path.replace(/\?.*/, '')) && method.toLowerCase() in methods;
  });
}

/** The fault of a command on the page, or undefined. */
function fault(page: string, words: readonly string[]): string | undefined {
  const [program, ...rest] = words;
  if (program === undefined || foreign.includes(program)) return undefined;
  switch (program) {
    case 'recua':
      try {
        readRecua(rest);
      } catch (error) {
        return (error as Error).message;
      }
      return undefined;
    case 'node':
      return rest[0] !== undefined && (existsSync(join(root, rest[0])) || text(page).includes(`// ${rest[0]}\n`)) ? undefined : `there is no ${rest[0]}`;
    case 'npm': {
      const [word, ...more] = rest;
      if (word === 'install') return more.filter((name) => !name.startsWith('-')).every((name) => name === 'recua' || /^\.\/recua(-linux-x64)?-\d+\.\d+\.\d+\.tgz$/.test(name) || name.replace(/@[\d.]+$/, '') in peers || JSON.stringify(packages).includes(name.replace('@recua/', ''))) ? undefined : 'no package of ours';
      const [script, ...after] = word === 'run' ? more : [word!, ...more];
      if (!(script! in scripts)) return `package.json has no script ${script}`;
      const args = after[0] === '--' ? after.slice(1) : after;
      if (script === 'start') return fault(page, ['recua', 'api', ...args]);
      if (script !== 'bench') return undefined;
      const told = [text('bench/main.mjs'), text('bench/loads.mjs'), text('bench/page.mjs'), text('bench/cluster/main.mjs')].join('\n');
      return args.filter((word) => /^--/.test(word)).find((flag) => !new RegExp(`['\\s]${flag.slice(2)}'?: \\{ type`).test(told));
    }
    case 'curl': {
      const url = rest.find((word) => word.startsWith('http://'));
      const method = rest[rest.indexOf('-X') + 1] !== undefined && rest.includes('-X') ? rest[rest.indexOf('-X') + 1]! : rest.some((word) => word === '-d' || word === '-F') ? 'POST' : 'GET';
      const path = /^http:\/\/[^/]+(\/.*)$/.exec(url ?? '')?.[1];
      return path !== undefined && hasRoute(method, path) ? undefined : `there is no route ${method} ${path}`;
    }
    default:
      return `${program} is no program that this test knows`;
  }
}

t.test('shell blocks are named sh, and the commands in them exist', (t) => {
  t.strictSame(blocks.filter(({ kind }) => /^(bash|shell|console|zsh|sh)\b/.test(kind) && !shell.some((one) => one.kind === kind)).map(({ page, kind }) => `${page}: ${kind}`), []);
  t.ok(shell.length > 80, 'they were found');
  const faults = shell.flatMap(({ page, code }) => shellCommands(code).flatMap(({ words, variables: set, line }) => {
    const strange = set.filter((name) => name.startsWith('RECUA_') && !variables.has(name)).map((name) => `there is no variable ${name}`);
    return [...strange, ...[fault(page, words)].filter((one) => one !== undefined)].map((one) => `${page}: ${line}: ${one}`);
  }));
  t.strictSame(faults, []);
  t.end();
});

t.test('a wrong command is found', (t) => {
  const faults = (code: string) => shellCommands(code).map(({ words }) => fault('README.md', words));
  t.match(faults('recua api m.gguf --contxt 5   # a comment'), [/no flag --contxt/]);
  t.match(faults('git diff | recua rum "a | b"'), [undefined, /no command rum/]);
  t.match(faults('npm run bech && node scripts/none.mjs'), [/no script bech/, /no scripts\/none\.mjs/]);
  t.match(faults('curl -X PUT http://127.0.0.1:8080/v1/models\ncurl http://127.0.0.1:8080/v1/nothing \\\n  -d \'{"a":1}\''), [/no route PUT \/v1\/models/, /no route POST \/v1\/nothing/]);
  t.match(faults('npm run bench -- --roundz 1'), ['--roundz']);
  t.match(faults('npm start -- m.gguf --portt 1'), [/no flag --portt/]);
  t.match(faults('foo --bar'), [/no program/]);
  t.strictSame(shellCommands('A=1 B="x y" recua run "it\'s" \'#\' # c'), [{ words: ['recua', 'run', 'it\'s', '#'], variables: ['A', 'B'], line: 'A=1 B="x y" recua run "it\'s" \'#\' # c' }]);
  t.end();
});

/** No hub and no proxy is reachable. */
const closed = { HF_ENDPOINT: 'http://127.0.0.1:9', HTTP_PROXY: 'http://127.0.0.1:9', HTTPS_PROXY: 'http://127.0.0.1:9', NO_PROXY: '127.0.0.1' };

/** Runs a block with sh as a user of this checkout. */
async function runBlock(t: Test, code: string, env: Record<string, string>): Promise<{ code: number | null; output: string }> {
  const folder = t.testdir({ 'requests.jsonl': '{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"a","max_tokens":1}}\n' });
  const program = join(folder, 'recua');
  writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${mainPath}' "$@"\n`);
  chmodSync(program, 0o755);
  const child = spawn('sh', ['-euc', code], { cwd: folder, env: { ...process.env, ...closed, GIT_DIR: join(folder, 'no-repository'), ...env, PATH: `${folder}:${process.env['PATH']}` }, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (piece: string) => { output += piece; });
  const [status] = await once(child, 'close') as [number | null];
  return { code: status, output };
}

/** `recua api builtin`: its address, and the environment for its clients. */
async function serve(t: Test): Promise<{ address: string; env: Record<string, string> }> {
  const home = makeHome(t);
  const server = start(['api', 'builtin', '--port', '0', '--ui-sessions'], { env: { ...closed, ...home.env } });
  t.teardown(async () => {
    server.child.kill('SIGTERM');
    await server.ended;
  });
  const [, address] = await server.saw(/(http:\/\/127\.0\.0\.1:\d+)/);
  return { address: address!, env: home.env };
}

const skip = (process.platform === 'win32' && 'needs sh') || (spawnSync('curl', ['--version']).status !== 0 && 'needs curl');

t.test('blocks without a mark run with the built-in model', { skip }, async (t) => {
  const { address, env } = await serve(t);
  const runnable = shell.filter((block) => block.kind === 'sh' && !isGenerated(block));
  t.ok(runnable.length >= 3);
  for (const { page, code } of runnable) {
    const { code: status, output } = await runBlock(t, code.replaceAll('http://127.0.0.1:8080', address).replaceAll('curl ', 'curl --silent --show-error --fail-with-body '), env);
    t.equal(status, 0, `${page}: ${code}${output}`);
    t.not(output, '');
  }
});

/** Refusals because nothing here has that id, or this server has other settings. */
const refused = /"code":"((?!route_)\w+_not_found|\w+_unsupported|model_fixed|not_implemented|upgrade_required|hub_unreachable)"/;

t.test('each request of docs/http.md is answered, or refused because this server lacks what it names', { skip }, async (t) => {
  const { address, env } = await serve(t);
  const requests = shell.filter(({ page }) => page === 'docs/http.md');
  t.ok(requests.length > 40);
  for (const { code } of requests) {
    const ids = Object.fromEntries([...code.matchAll(/\$([A-Z]+)/g)].map(([, name]) => [name!, '0']));
    // Events arrive until the client leaves.
    const seconds = code.includes('/models/sse') ? 1 : 60;
    const { output } = await runBlock(t, code.replaceAll('http://127.0.0.1:8080', address).replaceAll('curl ', `curl --silent --max-time ${seconds} -w "\\n%{http_code}" `), { ...env, ...ids });
    t.ok(/\n2\d\d$/.test(output) || refused.test(output), `${code}${output}`);
  }
});

/** Commands that end by themselves and need only the built-in model. */
const local = /^(\S+=\S+ |git diff \| )*recua ((run|show|chat) builtin|list|ls|config|doctor|alias$|ps$|completion|search$)/;

t.test('examples of docs/cli.md that need only this checkout run', { skip }, async (t) => {
  const lines = shell.filter(({ page }) => page === 'docs/cli.md').flatMap(({ code }) => code.split('\n')).filter((line) => local.test(line) && !/^recua chat (?!.* -p )|\| source$/.test(line));
  t.ok(lines.length >= 10, lines.join('\n'));
  const { env } = makeHome(t);
  for (const line of lines) {
    const { code, output } = await runBlock(t, line, env);
    // ps exits with 3 because no server runs.
    t.equal(code, line === 'recua ps' ? 3 : 0, `${line}\n${output}`);
  }
});
