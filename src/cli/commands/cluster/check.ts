// Asks the balancer itself whether it accepts a configuration: `haproxy -c`, `nginx -t`.
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

export type Check = { outcome: 'good' } | { outcome: 'missing' } | { outcome: 'refused'; said: string };
export type Balancer = 'haproxy' | 'nginx';

/** Where distributions install the balancers; a user's PATH often lacks sbin. */
const places = ['/usr/sbin', '/usr/local/sbin', '/opt/homebrew/bin'];
const mostMs = 30_000;

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
      return { outcome: 'good' };
    } catch (thrown) {
      const { code, stdout = '', stderr = '', message } = thrown as NodeJS.ErrnoException & { stdout?: string; stderr?: string };
      if (code === 'ENOENT') return { outcome: 'missing' };
      const said = `${stderr}${stdout}`.trim() || message;
      return { outcome: 'refused', said: said.replaceAll(file, 'the configuration') };
    }
  };
  try {
    await writeFile(file, text, { mode: 0o600 });
    if (balancer === 'haproxy') return await ask('haproxy', ['-c', '-f', file]);
    const whole = join(folder, 'nginx.conf');
    const kept = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path "${folder}/${name}";`);
    await writeFile(whole, `pid "${folder}/pid";\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n${kept.join('\n')}\ninclude "${file}";\n}\n`);
    return await ask('nginx', ['-t', '-p', folder, '-e', 'stderr', '-c', whole]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
