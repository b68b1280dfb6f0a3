// `npm run fuzz:native -- [TARGET...] [--runs N] [--seconds N] [--keep]`: runs libFuzzer on the
// programs of native/fuzz, compiled with AddressSanitizer and UndefinedBehaviorSanitizer. Starts
// from the inputs of native/fuzz/corpus; `--keep` writes back the smallest set with the most
// coverage. Failing inputs stay in build-address/fuzz/found; the output has the command to repeat
// each.
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import minimist from 'minimist';
import { isProgram, place } from './place.mjs';
import { Failure } from './process.mjs';
import { say } from './progress.mjs';
import { buildSanitized, folderOf, sanitizedEnv } from './sanitized-build.mjs';
import { program, setUp } from './setup.mjs';

const sources = join(place.native, 'fuzz');
const corpora = join(sources, 'corpus');
const folder = join(folderOf('address'), 'fuzz');
const found = join(folder, 'found');
/** Most inputs in a corpus, to keep the checkout small. */
const mostKept = 400;

/** Names of the programs. */
export function fuzzTargets() {
  return readdirSync(sources).filter((name) => name.endsWith('.cpp')).map((name) => name.slice(0, -4)).sort();
}

if (isProgram(import.meta.url)) {
  await program(async () => {
    const { _: names, runs = 100_000, seconds = 0, keep = false, ...rest } = minimist(process.argv.slice(2), { boolean: ['keep'] });
    const targets = fuzzTargets();
    const unknown = [...Object.keys(rest).map((name) => `--${name}`), ...names.filter((name) => !targets.includes(name))];
    if (unknown.length > 0) throw new Failure(`Expected some of ${targets.join(', ')}, --runs, --seconds or --keep, got ${unknown[0]}.`);
    for (const [name, value] of Object.entries({ runs, seconds })) {
      if (!Number.isInteger(value) || value < 0) throw new Failure(`Expected a whole number behind --${name}, got ${value}.`);
    }
    await setUp();
    await buildSanitized('address', 'fuzz', join('fuzz', 'fuzz-grammar'));
    mkdirSync(found, { recursive: true });
    for (const name of names.length > 0 ? names : targets) {
      const work = unpack(name);
      const good = await fuzz(name, work, { runs, seconds });
      if (!good) process.exitCode = 1;
      else if (keep) await keepLeast(name, work);
    }
  });
}

/** Unpacks a corpus into a folder of files: each line is one input in base64. */
function unpack(name) {
  const work = join(folder, 'corpus', name);
  mkdirSync(work, { recursive: true });
  const path = join(corpora, `${name}.txt`);
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [];
  for (const line of lines) {
    const input = Buffer.from(line, 'base64');
    writeFileSync(join(work, createHash('sha1').update(input).digest('hex')), input);
  }
  return work;
}

/** Runs one program to its end; true if nothing failed. */
async function fuzz(name, work, { runs, seconds }) {
  const dictionary = join(sources, `${name}.dict`);
  const limits = [`-runs=${runs}`, ...(seconds > 0 ? [`-max_total_time=${seconds}`] : []), '-timeout=30', '-rss_limit_mb=4096', '-max_len=4096'];
  const { code, lines } = await run(name, [...limits, ...(existsSync(dictionary) ? [`-dict=${dictionary}`] : []), '-print_final_stats=1', `-artifact_prefix=${found}/${name}-`, work]);
  const stat = (key) => new RegExp(`stat::${key}:\\s*(\\d+)`).exec(lines.join('\n'))?.[1] ?? '?';
  const reached = lines.findLast((line) => /^#\d+\s.*cov: /.test(line)) ?? '';
  say(`${name}: ${stat('number_of_executed_units')} inputs, ${stat('average_exec_per_sec')} a second, ${/cov: (\d+)/.exec(reached)?.[1] ?? '?'} edges, ${stat('peak_rss_mb')} MiB, slowest ${stat('slowest_unit_time_sec')} s${code === 0 ? '' : ', BROKEN'}`);
  if (code === 0) return true;
  say(lines.slice(-60).join('\n'));
  const path = /Test unit written to (.*)/.exec(lines.join('\n'))?.[1];
  if (path) say(`To repeat it: ${Object.entries(environment()).filter(([key]) => key !== 'PATH' && process.env[key] === undefined).map(([key, value]) => `${key}=${value}`).join(' ')} ${join(folder, `fuzz-${name}`)} ${path}`);
  return false;
}

/** Writes the smallest set of inputs with the same coverage back to the corpus. */
async function keepLeast(name, work) {
  const least = join(folder, 'corpus', `${name}.least`);
  rmSync(least, { recursive: true, force: true });
  mkdirSync(least, { recursive: true });
  await run(name, ['-merge=1', '-timeout=30', '-rss_limit_mb=4096', least, work]);
  const inputs = readdirSync(least)
    .map((file) => readFileSync(join(least, file)))
    .sort((a, b) => a.length - b.length || Buffer.compare(a, b));
  mkdirSync(corpora, { recursive: true });
  writeFileSync(join(corpora, `${name}.txt`), inputs.slice(0, mostKept).map((input) => `${input.toString('base64')}\n`).join(''));
  say(`${name}: ${Math.min(inputs.length, mostKept)} of ${inputs.length} inputs kept`);
}

function environment() {
  // libFuzzer handles signals and output itself.
  const env = sanitizedEnv('address', 'stderr');
  return { ...env, ASAN_OPTIONS: env.ASAN_OPTIONS.replace('handle_segv=0', 'handle_segv=1').replace('handle_abort=0', 'handle_abort=1') };
}

function run(name, args) {
  return new Promise((done, fail) => {
    const child = spawn(join(folder, `fuzz-${name}`), args, { cwd: found, env: environment(), stdio: ['ignore', 'ignore', 'pipe'] });
    const lines = [];
    let rest = '';
    child.stderr.setEncoding('utf8').on('data', (text) => {
      const all = (rest + text).split('\n');
      rest = all.pop();
      lines.push(...all);
      if (lines.length > 5_000) lines.splice(0, lines.length - 5_000);
    });
    child.on('error', (error) => fail(new Failure(`fuzz-${name} cannot be started: ${error.message}`)));
    child.on('close', (code) => done({ code: code ?? 1, lines: [...lines, rest] }));
  });
}
