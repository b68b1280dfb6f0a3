// Asks the balancer itself whether it accepts a configuration: `haproxy -c`, `nginx -t`.
import { execFile } from 'node:child_process';
import { lookup } from 'node:dns/promises';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** `unknown`: names that this machine cannot look up; the rest is accepted without them. */
export type Check = { outcome: 'good'; unknown: readonly string[] } | { outcome: 'missing' } | { outcome: 'refused'; said: string };
export type Balancer = 'haproxy' | 'nginx';

/** Where distributions install the balancers; a user's PATH often lacks sbin. */
const places = ['/usr/sbin', '/usr/local/sbin', '/opt/homebrew/bin'];
const mostMs = 30_000;
/** A replica's name or address in a configuration of nginx. */
const serverName = /^ {2}server ([^\s:[\]]+):/gm;

/** The names that this machine cannot look up. */
async function unknownAmong(names: readonly string[]): Promise<string[]> {
  const known = await Promise.all(names.map((name) => lookup(name).then(() => true, () => false)));
  return names.filter((_, index) => !known[index]);
}

/**
 * Starts nothing and does not read the system's own configuration. `further`: folders to search
 * besides PATH.
 */
export async function check(balancer: Balancer, text: string, further: readonly string[] = places): Promise<Check> {
  const folder = await mkdtemp(join(tmpdir(), 'recua-cluster-'));
  const file = join(folder, 'recua.conf');
  const ask = async (program: Balancer, args: readonly string[]): Promise<Check> => {
    const env = { ...process.env, PATH: [process.env['PATH'] ?? '', ...further].filter((place) => place !== '').join(':') };
    try {
      await promisify(execFile)(program, args, { env, cwd: folder, timeout: mostMs });
      return { outcome: 'good', unknown: [] };
    } catch (thrown) {
      const { code, stdout = '', stderr = '', message } = thrown as NodeJS.ErrnoException & { stdout?: string; stderr?: string };
      if (code === 'ENOENT') return { outcome: 'missing' };
      const said = `${stderr}${stdout}`.trim() || message;
      return { outcome: 'refused', said: said.replaceAll(file, 'the configuration') };
    }
  };
  try {
    const write = async (config: string): Promise<void> => await writeFile(file, config, { mode: 0o600 });
    await write(text);
    if (balancer === 'haproxy') return await ask('haproxy', ['-c', '-f', file]);
    const whole = join(folder, 'nginx.conf');
    const kept = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path "${folder}/${name}";`);
    await writeFile(whole, `pid "${folder}/pid";\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n${kept.join('\n')}\ninclude "${file}";\n}\n`);
    // nginx looks up names when it starts. They are those of the balancer's network, perhaps not of
    // this machine's.
    const unknown: string[] = [];
    for (let config = text; ; await write(config)) {
      const result = await ask('nginx', ['-t', '-p', folder, '-e', 'stderr', '-c', whole]);
      if (result.outcome === 'good') return { outcome: 'good', unknown };
      if (unknown.length > 0 || result.outcome !== 'refused' || !result.said.includes('host not found in upstream')) return result;
      unknown.push(...await unknownAmong([...new Set([...text.matchAll(serverName)].map(([, name]) => name!))]));
      if (unknown.length === 0) return result;
      config = text.replaceAll(serverName, (whole, name: string) => (unknown.includes(name) ? whole.replace(name, '127.0.0.1') : whole));
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
