// CPU features that a clone's build leaves out, because set-up found that the library computes
// wrongly with them. scripts/processor.mjs writes the file.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isClone, ownInstallation } from '../../system/installation.js';

/** Log texts without a final period; none if the addon in use is not a clone's build. */
export function builtWithout(
  installation = ownInstallation(),
  environment: Readonly<Record<string, string | undefined>> = process.env,
): string[] {
  if (environment['RECUA_ADDON'] || !isClone(installation)) return [];
  try {
    const { without } = JSON.parse(readFileSync(join(installation.root, 'build', 'cpu-without.json'), 'utf8')) as {
      without: { name: string; reason: string }[];
    };
    return without.map(
      ({ name, reason }) => `the CPU library is built without ${name}, with which it failed its test on this processor: ${reason}`,
    );
  } catch {
    return [];
  }
}
