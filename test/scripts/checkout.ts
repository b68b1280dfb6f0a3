// A small checkout for tests of the scripts: the real scripts in their own folder, with a llama.cpp
// of two files.
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The scripts of this repository, as a URL prefix. */
export const scripts = new URL('../../scripts/', import.meta.url).href;

export interface Checkout {
  folder: string;
  /** A git repository in the role of upstream, with the tag v1, and its tree there. */
  upstream: string;
  tree: string;
  pin(sources: object[], tree?: string): void;
  run(script: string, env?: Record<string, string>): { status: number | null; output: string };
}

function git(cwd: string, ...args: string[]): string {
  const result = spawnSync('git', ['-C', cwd, '-c', 'user.name=t', '-c', 'user.email=t@t', '-c', 'commit.gpgsign=false', '-c', 'core.autocrlf=false', ...args], { encoding: 'utf8' });
  if (result.status !== 0) throw new Error(result.stderr);
  return result.stdout.trim();
}

export function makeCheckout(parent: string): Checkout {
  const folder = join(parent, 'réc ua');
  mkdirSync(join(folder, 'vendor'), { recursive: true });
  cpSync(fileURLToPath(scripts), join(folder, 'scripts'), { recursive: true });
  const upstream = join(parent, 'upstream');
  mkdirSync(join(upstream, 'include'), { recursive: true });
  writeFileSync(join(upstream, 'include', 'llama.h'), '// one\r\n// two\n');
  git(upstream, 'init', '-q');
  git(upstream, 'add', '-A');
  git(upstream, 'commit', '-q', '-m', 'one');
  git(upstream, 'tag', 'v1');
  const tree = git(upstream, 'rev-parse', 'HEAD^{tree}');
  return {
    folder,
    upstream,
    tree,
    pin(sources, pinned = tree) {
      writeFileSync(join(folder, 'vendor', 'llama.cpp.json'), JSON.stringify({ name: 'llama.cpp', version: 'v1', tree: pinned, sources }));
    },
    run(script, env = {}) {
      const result = spawnSync(process.execPath, [join(folder, 'scripts', script)], { cwd: folder, encoding: 'utf8', env: { ...process.env, ...env } });
      return { status: result.status, output: `${result.stdout}${result.stderr}` };
    },
  };
}
