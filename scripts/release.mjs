// Commands for .github/workflows/release.yml, from the table of targets:
//   node scripts/release.mjs matrix            its matrices, as `name=json` lines
//   node scripts/release.mjs check-tag v1.2.3  fails if the tag is not package.json's version
//   node scripts/release.mjs publish [--dry-run]  npm/dist, recua last, because it names the others
// Publishing again after a failure resumes: it skips what the registry has.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageName, table } from './package-texts.mjs';
import { isProgram, place, root } from './place.mjs';
import { capture, cleanEnv, Failure, npm, npmRegistry, show } from './process.mjs';
import { say } from './progress.mjs';
import { program } from './setup.mjs';

const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/**
 * One job for each target, and one for each kind of machine that can install it, with the oldest
 * and the newest supported Node.
 */
export function matrices() {
  const targets = Object.values(table);
  const build = targets.map(({ name, backend, ci }) => ({ target: name, backend, runner: ci.runner, container: ci.container ?? '', tools: ci.tools ?? '' }));
  const test = targets.filter(({ isBase }) => isBase).flatMap(({ ci }) => ['20.17', '24'].map((node) => ({ runner: ci.runner, node })));
  return { build: { include: build }, test: { include: test } };
}

export function checkTag(tag) {
  if (tag !== `v${version}`) throw new Failure(`The tag is ${tag}, but package.json says ${version}: expected v${version}.`);
}

/** Name and archive of each package of a release, in publishing order. */
export function releaseArchives() {
  const archive = (name) => join(place.packed, `${name.replace(/^@/, '').replace('/', '-')}-${version}.tgz`);
  return [...Object.keys(table).map(packageName), 'recua'].map((name) => ({ name, path: archive(name) }));
}

function inRegistry(name) {
  const { command, args, shell } = npm(['view', `${name}@${version}`, 'version', '--silent']);
  return capture(command, args, { shell })?.includes(version) ?? false;
}

/**
 * The environment in which npm sends its registry a token; npm's own configuration chooses the
 * token.
 */
export function publishEnvironment(registry, token, env = process.env) {
  return token ? { ...env, [`npm_config_${registry.replace(/^https?:/, '')}:_authToken`]: token } : env;
}

async function publish({ dryRun }) {
  const all = releaseArchives();
  const missing = all.filter(({ path }) => !existsSync(path));
  if (missing.length > 0) throw new Failure(`A release is whole or none. npm/dist lacks ${missing.map(({ name }) => name).join(', ')}.`);
  const env = publishEnvironment(npmRegistry(), process.env.NPM_TOKEN, cleanEnv());
  for (const { name, path } of all) {
    if (!dryRun && inRegistry(name)) {
      say(`${name}@${version} is published already`);
      continue;
    }
    // `npm install recua` must not install a version like 1.2.3-beta.1.
    const tag = version.includes('-') ? 'next' : 'latest';
    const { command, args } = npm(['publish', path, '--access', 'public', '--tag', tag, ...(dryRun ? ['--dry-run'] : ['--provenance'])]);
    if (await show(command, args, { env }) !== 0) throw new Failure(`${name} was not published. Run this again once the cause is mended.`);
  }
}

if (isProgram(import.meta.url)) {
  await program(async () => {
    const [action, ...rest] = process.argv.slice(2);
    if (action === 'matrix') console.log(Object.entries(matrices()).map(([name, value]) => `${name}=${JSON.stringify(value)}`).join('\n'));
    else if (action === 'check-tag') checkTag(rest[0]);
    else if (action === 'publish') await publish({ dryRun: rest.includes('--dry-run') });
    else throw new Failure(`Expected matrix, check-tag or publish, got ${action ?? 'nothing'}.`);
  });
}
