// Starts a process in a sandbox, by means of `recua-launch`, the program beside the addon
// (native/launcher).
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { addonPlaces, findPackages } from '../../addon/places.js';
import { RecuaError } from '../../errors.js';
import { ownInstallation } from '../../system/installation.js';
import { isProgram, nodePath } from '../../system/programs.js';
import { wantsGpu } from '../offload.js';
import type { EngineOptions } from '../protocol.js';
import { confinedEnvironment, type Environment } from './environment.js';
import { launchArguments, rulesOf, type Needs, type Rules } from './rules.js';

/** The program to start, its arguments before Node's own, its environment, the sandbox's rules. */
export interface Launch {
  program: string;
  arguments: string[];
  environment: Environment;
  rules: Rules;
}

/**
 * What an engine with these options needs; undefined: no sandbox. `stateFolder`: where it saves
 * states.
 */
export function needsOf(options: EngineOptions, stateFolder: string | undefined): Needs | undefined {
  const gpu = wantsGpu(options);
  if (options.sandbox === 'off' || (options.sandbox === 'auto' && gpu)) return undefined;
  const { modelPath, checked = [], sleep } = options;
  const writes = [...(sleep ? [sleep.root] : []), ...(stateFolder === undefined ? [] : [stateFolder])];
  return { reads: [modelPath, ...checked.map(({ path }) => path)], writes, gpu };
}

/**
 * Undefined if this system has no sandbox.
 *
 * @throws RecuaError `sandbox_unavailable` if there is no sandbox but `hasTo` requires one.
 */
export function confine(needs: Needs, hasTo: boolean): Launch | undefined {
  const program = launcher();
  if (program === undefined) {
    if (!hasTo) return undefined;
    throw new RecuaError('sandbox_unavailable', process.platform === 'linux'
      ? 'The engine was to run in a sandbox (--sandbox on), but recua-launch is not beside the addon. In a clone, run npm run setup; otherwise reinstall Recua.'
      : `The engine was to run in a sandbox (--sandbox on), which exists only on Linux, not on ${process.platform}.`);
  }
  const rules = rulesOf(needs);
  return { program, arguments: [...(hasTo ? ['--need'] : []), ...launchArguments(rules), '--', nodePath()], environment: confinedEnvironment(), rules };
}

/** The sandbox that processes get here, e.g. `landlock:7,seccomp`; `none` if there is none. */
export function whatHolds(): string {
  const launch = confine({ reads: [], writes: [], gpu: false }, false);
  if (!launch) return 'none';
  const { stdout } = spawnSync(launch.program, [...launch.arguments, '-p', 'process.env.RECUA_CONFINED'], { encoding: 'utf8', timeout: 10_000 });
  return stdout?.trim() || 'none';
}

/** The launcher found last, and the RECUA_ADDON that it was found with. */
let known: { addon: string | undefined; path: string } | undefined;

/**
 * The path of recua-launch, beside the addon that will be used. Once found, it is not looked for
 * again: files that cannot be read for a moment must not lead to an engine without a sandbox.
 */
function launcher(): string | undefined {
  if (process.platform !== 'linux') return undefined;
  const addon = process.env['RECUA_ADDON'];
  if (known && known.addon === addon) return known.path;
  const path = findLauncher();
  if (path !== undefined) known = { addon, path };
  return path;
}

function findLauncher(): string | undefined {
  const installation = ownInstallation();
  const packages = findPackages(installation, { platform: process.platform, arch: process.arch });
  const place = addonPlaces(installation, packages, process.env).find(({ refusal }) => refusal === '');
  const path = place && join(dirname(place.path), 'recua-launch');
  return path !== undefined && isProgram(path) ? path : undefined;
}
