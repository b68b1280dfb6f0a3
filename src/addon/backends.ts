// The optional (GPU) backends: finds their libraries, tests each in a probe process, and loads
// those that work. A backend that fails is only reported, with the reason. Runs where the addon is
// loaded.
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { RecuaError } from '../errors.js';
import { installCommand, ownInstallation } from '../system/installation.js';
import type { Installation } from '../system/installation.js';
import type { OpenedAddon } from './load.js';
import { explainFault, fileFault, machineFacts } from './machine.js';
import { backendLibrary, findPackages, librariesBeside } from './places.js';
import { probe, probeLimitMs } from './probe.js';

/** Result for an optional backend. */
export interface BackendReport {
  /** 'cuda', 'vulkan', … */
  backend: string;
  /** The package that contains it; '' for a library beside the addon. */
  package: string;
  file: string;
  loaded: boolean;
  devices: string[];
  /** Why it is not loaded, and how to fix that; '' if it is loaded. */
  reason: string;
}

interface Candidate {
  backend: string;
  package: string;
  file: string;
  glibc: string;
  refusal: string;
}

/** If two backends see the same GPU, the first one here gets it: the vendor's own is faster. */
const preference = ['cuda', 'hip', 'musa', 'metal', 'sycl', 'vulkan'];

const target = { platform: process.platform, arch: process.arch };
const begun = new WeakMap<object, Promise<BackendReport[]>>();

/** Runs once per addon; later calls return the first result. */
export function loadOptionalBackends(
  opened: OpenedAddon,
  installation: Installation = ownInstallation(),
  limitMs = probeLimitMs,
): Promise<BackendReport[]> {
  const { addon } = opened;
  const known = begun.get(addon);
  if (known) return known;
  const loading = loadAll(opened, installation, limitMs);
  begun.set(addon, loading);
  return loading;
}

/** The backends that `loadOptionalBackends` would try. */
export function installedBackends(opened: OpenedAddon, installation: Installation = ownInstallation()): BackendReport[] {
  return findCandidates(opened, installation).map(({ backend, package: name, file, refusal }) => (
    { backend, package: name, file, loaded: false, devices: [], reason: refusal || 'it was not asked for' }));
}

async function loadAll(opened: OpenedAddon, installation: Installation, limitMs: number): Promise<BackendReport[]> {
  const { addon, place, refused } = opened;
  const candidates = findCandidates(opened, installation);
  const results = await Promise.all(candidates.map(async (one) => {
    const fault = one.refusal || fileFault(one.file, target);
    return fault !== '' ? { ok: false as const, reason: fault } : await probe({ addon: place.path, source: place.source, file: one.file, refused }, limitMs);
  }));
  return candidates.map((one, at): BackendReport => {
    const { backend, package: name, file, glibc } = one;
    const report = { backend, package: name, file };
    const result = results[at]!;
    if (!result.ok) return { ...report, loaded: false, devices: [], reason: result.reason };
    try {
      addon.loadBackend(file);
      return { ...report, loaded: true, devices: result.devices, reason: '' };
    } catch (error) {
      return { ...report, loaded: false, devices: [], reason: explainFault(RecuaError.from(error).message, { glibc }, machineFacts()) };
    }
  });
}

function findCandidates({ place, linked }: OpenedAddon, installation: Installation): Candidate[] {
  const packages = findPackages(installation, target).filter(({ backend }) => backend !== 'cpu').map((one): Candidate => {
    const file = backendLibrary(join(one.folder, 'bin'), one.backend, target.platform);
    const again = `\`${installCommand(installation, `${one.name}@${installation.version}`)}\``;
    const refusal = one.refusal !== '' ? `${one.refusal}; ${again} brings the one that fits` : existsSync(file) ? '' : `its library is missing; ${again} installs it again`;
    return { backend: one.backend, package: one.name, file, glibc: one.glibc, refusal };
  });
  // Compiled-in backends were registered when the addon was loaded.
  const beside = linked ? [] : librariesBeside(dirname(place.path), target.platform)
    .filter(({ backend }) => !packages.some((one) => one.backend === backend && one.refusal === ''))
    .map((one): Candidate => ({ ...one, package: '', glibc: '', refusal: '' }));
  const rank = ({ backend }: Candidate) => (preference.includes(backend) ? preference.indexOf(backend) : preference.length);
  return [...packages, ...beside].sort((a, b) => rank(a) - rank(b));
}
