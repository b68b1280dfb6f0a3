// Entry of the process that surveys the native code, forked by engine/gateway/survey.ts.
import { RecuaError } from '../errors.js';
import { ownInstallation } from '../system/installation.js';
import { loadOptionalBackends } from './backends.js';
import { openAddon } from './load.js';
import { machineFacts } from './machine.js';
import { findPackages } from './places.js';
import type { Survey } from '../engine/gateway/survey.js';

async function look(): Promise<Survey> {
  const machine = machineFacts();
  const packages = findPackages(ownInstallation(), machine);
  try {
    const opened = openAddon();
    const { addon, place, linked, attempts } = opened;
    const optional = await loadOptionalBackends(opened);
    return {
      machine, packages, attempts, failure: undefined,
      addon: { source: place.source, path: place.path, linked, llamaCpp: addon.version.llamaCpp },
      backends: addon.backends(), optional, devices: addon.devices(),
    };
  } catch (error) {
    return {
      machine,
      packages,
      attempts: [],
      failure: RecuaError.from(error).toPlain(),
      addon: undefined,
      backends: [],
      optional: [],
      devices: [],
    };
  }
}

process.on('disconnect', () => process.exit(0));
process.send!(await look());
