// Loads the addon from the first of its places (places.ts) that works, with the CPU backend in its
// folder. Runs wherever native code runs: in the engine process, in a probe, in a survey; never in
// the gateway.
import { constants } from 'node:os';
import { dirname } from 'node:path';
import { isMainThread } from 'node:worker_threads';
import type { NativeAddon } from './addon.js';
import { RecuaError } from '../errors.js';
import { installCommand, isClone, ownInstallation, sameVersion } from '../system/installation.js';
import type { Installation } from '../system/installation.js';
import { explainFault, fileFault, machineFacts } from './machine.js';
import { machineText } from '../system/machine-text.js';
import { addonPlaces, baseName, findPackages, packageFolders, strangePackages } from './places.js';
import type { AddonPlace, NativePackage } from './places.js';
import { kernelsAmong, refusedIn, type Refused } from './refused.js';

/** A place that was tried without success. */
export interface Attempt {
  name: string;
  reason: string;
}

interface OpenedFile {
  addon: NativeAddon;
  /** Its backends are compiled in, as in a clone's build; its folder has none. */
  linked: boolean;
  /** CPU libraries and kernels not in use. */
  refused: Refused;
}

export interface OpenedAddon extends OpenedFile {
  place: AddonPlace;
  /** Places before it that did not work. */
  attempts: Attempt[];
}

const target = { platform: process.platform, arch: process.arch };
/** By path: loading the same file twice would create a second set of classes. */
const opened = new Map<string, OpenedFile>();

/**
 * @throws RecuaError `addon_missing` with every place, why it does not work, and the command that
 * fixes it.
 */
export function loadAddon(): NativeAddon {
  return openAddon().addon;
}

export function openAddon(
  installation: Installation = ownInstallation(),
  environment: Readonly<Record<string, string | undefined>> = process.env,
): OpenedAddon {
  return openFirst(installation, environment, (place, needs) => openFile(place, needs, installation, refusedIn(environment)));
}

/**
 * Opens the addon without the CPU library beside it, for trying libraries; once per process.
 * @throws like `openAddon`
 */
export function openAddonAlone(refused: Refused): OpenedAddon {
  const installation = ownInstallation();
  return openFirst(installation, process.env, (place, needs) => openModule(place, needs, installation, refused));
}

function openFirst(
  installation: Installation, environment: Readonly<Record<string, string | undefined>>,
  open: (place: AddonPlace, needs: { glibc: string }) => OpenedFile,
): OpenedAddon {
  const packages = findPackages(installation, target);
  const attempts: Attempt[] = [];
  for (const place of addonPlaces(installation, packages, environment)) {
    const needs = packages.find(({ folder }) => place.path.startsWith(folder)) ?? { glibc: '' };
    try {
      if (place.refusal !== '') throw new Error(place.refusal);
      return { ...open(place, needs), place, attempts };
    } catch (error) {
      attempts.push({ name: place.name, reason: (error as Error).message });
    }
  }
  throw new RecuaError('addon_missing', story(installation, packages, attempts, Boolean(environment['RECUA_ADDON'])));
}

/** The addon in one file, with its CPU backend. Throws an error whose message is the reason. */
export function openFile({ path, source }: Pick<AddonPlace, 'path' | 'source'>, needs: { glibc: string } = { glibc: '' }, installation = ownInstallation(), refused = refusedIn()): OpenedFile {
  const known = opened.get(path);
  if (known) return known;
  const result = openModule({ path, source }, needs, installation, refused);
  if (!result.linked) result.addon.loadBackends(dirname(path), true, refused);
  opened.set(path, result);
  return result;
}

function openModule({ path, source }: Pick<AddonPlace, 'path' | 'source'>, needs: { glibc: string }, installation: Installation, refused: Refused): OpenedFile {
  const fault = fileFault(path, target);
  if (fault !== '') throw new Error(fault);
  const module = { exports: {} as NativeAddon };
  try {
    // RTLD_NOW: a missing function is an error here, instead of ending the process when it is
    // called.
    process.dlopen(module, path, ...(constants.dlopen?.RTLD_NOW === undefined ? [] : [constants.dlopen.RTLD_NOW]));
  } catch (error) {
    throw new Error(explainFault((error as Error).message, needs, machineFacts()), { cause: error });
  }
  const addon: Partial<NativeAddon> = module.exports;
  if (!isOurs(addon)) throw new Error('it is not an addon of Recua, or was built for an older version');
  const { llamaCpp, backends } = addon.version;
  // Libraries of the same name are loaded once per process: a second addon may run on the libraries
  // of another Recua.
  if (source === 'package' && !sameVersion(llamaCpp, installation.llamaCpp)) {
    throw new Error(`it runs on llama.cpp ${llamaCpp}, but this Recua is for ${installation.llamaCpp}; another Recua may be loaded in this process`);
  }
  for (const kernel of kernelsAmong(refused, 'attention')) if (addon.attention().kernels.includes(kernel)) addon.refuseAttention(kernel);
  for (const kernel of kernelsAmong(refused, 'matmul')) if (addon.matmul().kernels.includes(kernel)) addon.refuseMatmul(kernel);
  // In a worker thread, 'exit' is only that thread's.
  if (isMainThread) process.once('exit', () => addon.halt());
  return { addon, linked: backends.length > 0, refused };
}

function isOurs(addon: Partial<NativeAddon>): addon is NativeAddon {
  return addon.loadModel !== undefined && addon.loadBackends !== undefined && addon.backends !== undefined && addon.proveCpu !== undefined;
}

function story(installation: Installation, packages: readonly NativePackage[], attempts: readonly Attempt[], forced: boolean): string {
  const base = baseName(target);
  const lines = attempts.map(({ name, reason }) => `${name}: ${reason}`);
  if (!forced && !packages.some(({ backend }) => backend === 'cpu')) {
    const strange = strangePackages(installation, target);
    lines.push(`${base}: not installed beside Recua (${packageFolders(installation).slice(0, 3).join(', ')}, …)`
      + (strange.length > 0 ? `; there is ${strange.join(', ')}, so node_modules may come from another machine` : ''));
  }
  const isShort = attempts.some(({ reason }) => /temporarily unavailable|cannot allocate memory|failed to map/i.test(reason));
  const mend = isShort ? 'This process may take no more memory or threads: `ulimit -a` shows its limits.' : forced ? 'RECUA_ADDON names the file; correct it or unset it.'
    : isClone(installation) ? 'Run `npm run setup` to build it.'
      : `Run \`${installCommand(installation, `${base}@${installation.version}`)}\`; if Recua came as archives, install both at once. If there is no package for this machine, build it in a clone of the repository: \`npm run setup\`.`;
  return `Expected the native addon of Recua for ${machineText(machineFacts())}, found none that loads.\n${lines.map((line) => `  ${line}\n`).join('')}${mend}`;
}
