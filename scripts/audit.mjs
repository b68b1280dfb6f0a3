// `npm run audit [-- --registry URL]`: asks the registry for known vulnerabilities in Recua's
// runtime dependencies; development dependencies are left out. Exits with 0 if there are none, with
// 1 if one is moderate or worse, and with 2 if nothing was checked: some registries offer no
// audits. A release runs it before it builds.
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { isProgram, root } from './place.mjs';
import { cleanEnv, npm, npmRegistry } from './process.mjs';
import { say } from './progress.mjs';
import { program } from './setup.mjs';

const levels = ['moderate', 'high', 'critical'];

/** Turns npm's report into lines for the user and an exit code. */
export function judge(report, registry) {
  const { vulnerabilities, metadata, error, statusCode, message } = report;
  if (!vulnerabilities) {
    const why = message ?? error?.summary ?? 'it gave no report';
    const lacks = [404, 405, 501].includes(statusCode) ? `${registry} offers no audits` : `${registry} could not be asked`;
    return { code: 2, lines: [`Nothing was checked: ${lacks} (${why}).`, 'Ask one that does: npm run audit -- --registry URL'] };
  }
  const found = Object.values(vulnerabilities).filter(({ severity }) => levels.includes(severity));
  const total = metadata?.dependencies?.prod;
  if (found.length === 0) return { code: 0, lines: [`${registry} knows of no hole in ${total === undefined ? 'what' : `the ${total} packages that`} Recua runs with.`] };
  const lines = found.flatMap(({ name, severity, range, via }) => (
    via.map((one) => (typeof one === 'string' ? `${name} ${range}: ${severity}, by ${one}` : `${name} ${one.range}: ${one.severity}, ${one.title} (${one.url})`))
  ));
  return { code: 1, lines: [...new Set(lines)] };
}

/** Runs npm and returns the result of `judge` for its report. */
export function audit(registry = npmRegistry()) {
  const { command, args, shell } = npm(['audit', '--package-lock-only', '--omit=dev', '--json', '--registry', registry]);
  const { stdout } = spawnSync(command, args, { cwd: root, env: cleanEnv(), shell, encoding: 'utf8', windowsHide: true, maxBuffer: 64 * 1024 * 1024 });
  let report;
  try {
    report = JSON.parse(stdout);
  } catch {
    report = {};
  }
  return judge(report, registry);
}

if (isProgram(import.meta.url)) {
  await program(async () => {
    const { values } = parseArgs({ options: { registry: { type: 'string' } } });
    const { code, lines } = audit(values.registry);
    for (const line of lines) say(line);
    return code;
  });
}
