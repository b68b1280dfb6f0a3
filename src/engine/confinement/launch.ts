// How a process is started that is held to its rules: by `recua-launch`, beside the addon
// (native/launcher).
import { spawnSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { dirname, join } from 'node:path';
import { addonPlaces, findPackages } from '../../addon/places.js';
import { RecuaError } from '../../errors.js';
import { ownInstallation } from '../../system/installation.js';
import { wantsGpu } from '../offload.js';
import type { EngineOptions } from '../protocol.js';
import { launchArguments, rulesOf, type Needs, type Rules } from './rules.js';

/** A program, what it is given before Node's own arguments, and what holds for it. */
export interface Launch {
  program: string;
  arguments: string[];
  rules: Rules;
}

/**
 * What an engine with these options needs, or undefined where it is not confined. `stateFolder` is
 * where it saves states.
 */
export function needsOf(options: EngineOptions, stateFolder: string | undefined): Needs | undefined {
  const gpu = wantsGpu(options);
  if (options.sandbox === 'off' || (options.sandbox === 'auto' && gpu)) return undefined;
  const { modelPath, checked = [], sleep } = options;
  const writes = [...(sleep ? [sleep.root] : []), ...(stateFolder === undefined ? [] : [stateFolder])];
  return { reads: [modelPath, ...checked.map(({ path }) => path)], writes, gpu };
}

/**
 * Undefined where this system cannot confine a process.
 *
 * @throws RecuaError `sandbox_unavailable` where it has to be confined.
 */
export function confine(needs: Needs, hasTo: boolean): Launch | undefined {
  const program = launcher();
  if (program === undefined) {
    if (!hasTo) return undefined;
    throw new RecuaError('sandbox_unavailable', process.platform === 'linux'
      ? 'The engine was to run in a sandbox (--sandbox on), but recua-launch is not beside the addon. In a clone, run npm run setup; else reinstall Recua.'
      : `The engine was to run in a sandbox (--sandbox on), which there is on Linux alone, not on ${process.platform}.`);
  }
  const rules = rulesOf(needs);
  return { program, arguments: [...(hasTo ? ['--need'] : []), ...launchArguments(rules), '--', process.execPath], rules };
}

/**
 * What holds for a process that is started so here: `landlock:7,seccomp`; `none` where this system
 * cannot confine one.
 */
export function whatHolds(): string {
  const launch = confine({ reads: [], writes: [], gpu: false }, false);
  if (!launch) return 'none';
  const { stdout } = spawnSync(launch.program, [...launch.arguments, '-p', 'process.env.RECUA_CONFINED'], { encoding: 'utf8', timeout: 10_000 });
  return stdout?.trim() || 'none';
}

/** Beside the addon that will be used. */
function launcher(): string | undefined {
  if (process.platform !== 'linux') return undefined;
  const installation = ownInstallation();
  const packages = findPackages(installation, { platform: process.platform, arch: process.arch });
  const place = addonPlaces(installation, packages, process.env).find(({ refusal }) => refusal === '');
  const path = place && join(dirname(place.path), 'recua-launch');
  return path !== undefined && isProgram(path) ? path : undefined;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
