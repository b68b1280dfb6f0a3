// Asks the balancer itself whether it accepts a configuration: `haproxy -c`, `nginx -t`. Both also
// refuse addresses, names and files that only the balancer's machine has. For those that this one
// lacks, the balancer gets stand-ins.
import { execFile } from 'node:child_process';
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { access, constants, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, isIP } from 'node:net';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { getSystemErrorMap, promisify } from 'node:util';
import { haproxyConfig } from '../../../cluster/haproxy.js';
import { nginxConfig } from '../../../cluster/nginx.js';
import { addressText, isName, type Cluster, type Written } from '../../../cluster/replicas.js';

/** `lacks`: what this machine cannot do, so that only the rest was checked. */
export type Check = { outcome: 'good'; lacks: readonly string[] } | { outcome: 'missing' } | { outcome: 'refused'; said: string };
export type Balancer = 'haproxy' | 'nginx';

export const configs: Readonly<Record<Balancer, (cluster: Cluster) => Written>> = { haproxy: haproxyConfig, nginx: nginxConfig };

/** Where distributions install the balancers; a user's PATH often lacks sbin. */
const places = ['/usr/sbin', '/usr/local/sbin', '/opt/homebrew/bin'];
const mostMs = 30_000;
const here = '127.0.0.1';

/**
 * Starts nothing and does not read the system's own configuration. `further`: folders to search
 * besides PATH.
 */
export async function check(balancer: Balancer, cluster: Cluster, further: readonly string[] = places): Promise<Check> {
  const folder = await mkdtemp(join(tmpdir(), 'recua-cluster-'));
  const file = join(folder, 'recua.conf');
  const ask = async (args: readonly string[], lacks: readonly string[]): Promise<Check> => {
    const env = { ...process.env, PATH: [process.env['PATH'] ?? '', ...further].filter((place) => place !== '').join(':') };
    try {
      await promisify(execFile)(balancer, args, { env, cwd: folder, timeout: mostMs });
      return { outcome: 'good', lacks };
    } catch (thrown) {
      const { code, stdout = '', stderr = '', message } = thrown as NodeJS.ErrnoException & { stdout?: string; stderr?: string };
      if (code === 'ENOENT') return { outcome: 'missing' };
      const said = `${stderr}${stdout}`.trim() || message;
      return { outcome: 'refused', said: said.replaceAll(file, 'the configuration') };
    }
  };
  try {
    const { present, lacks } = await withStandIns(balancer, cluster, folder);
    await writeFile(file, configs[balancer](present).text, { mode: 0o600 });
    if (balancer === 'haproxy') return await ask(['-c', '-f', file], lacks);
    const whole = join(folder, 'nginx.conf');
    const kept = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path "${folder}/${name}";`);
    await writeFile(whole, `pid "${folder}/pid";\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n${kept.join('\n')}\ninclude "${file}";\n}\n`);
    return await ask(['-t', '-p', folder, '-e', 'stderr', '-c', whole], lacks);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The cluster with what this machine has in the place of what it lacks. */
async function withStandIns(balancer: Balancer, cluster: Cluster, folder: string): Promise<{ present: Cluster; lacks: string[] }> {
  const present = { ...cluster };
  const lacks: string[] = [];
  // HAProxy starts without the replicas' names, and binds nothing when it checks.
  const unknown = balancer === 'nginx' ? await unknownAmong([...new Set(cluster.replicas.map(({ host }) => host))]) : [];
  if (unknown.length > 0) {
    lacks.push(`look up ${unknown.join(', ')}`);
    present.tlsName ||= unknown[0]!;
    present.replicas = cluster.replicas.map((one) => (unknown.includes(one.host) ? { ...one, host: here } : one));
  }
  const mustHear = balancer === 'nginx' || (cluster.listen.host !== '' && isName(cluster.listen.host));
  const unheard = mustHear ? await unheardOf(cluster.listen) : undefined;
  if (unheard !== undefined) {
    lacks.push(`listen on ${unheard}`);
    present.listen = { host: here, port: 8000 };
  }
  const { authorities } = cluster;
  const isSecure = cluster.replicas.some(({ secure }) => secure);
  if (isSecure && !(isAbsolute(authorities) && await access(authorities, constants.R_OK).then(() => true, () => false))) {
    lacks.push(isAbsolute(authorities) ? `read ${authorities}` : `find ${authorities}, a path of the balancer's own folder`);
    present.authorities = join(folder, 'authorities.pem');
    await writeFile(present.authorities, rootCertificates[0]!);
  }
  return { present, lacks };
}

/** The names that this machine cannot look up. */
async function unknownAmong(hosts: readonly string[]): Promise<string[]> {
  const known = await Promise.all(hosts.map((host) => lookup(host).then(() => true, () => false)));
  return hosts.filter((_, index) => !known[index]);
}

/** An address on which this machine cannot listen, and why; a port in use does not count. */
async function unheardOf({ host, port }: Cluster['listen']): Promise<string | undefined> {
  for (const one of host === '' ? ['0.0.0.0', '::'] : [host]) {
    const server = createServer((socket) => socket.destroy());
    try {
      server.listen({ host: one, port, ipv6Only: isIP(one) === 6 });
      await once(server, 'listening');
      server.close();
      await once(server, 'close');
    } catch (thrown) {
      const { code, errno } = thrown as NodeJS.ErrnoException;
      if (code !== 'EADDRINUSE') return `${addressText(one, port)} (${getSystemErrorMap().get(errno!)?.[1] ?? code})`;
    }
  }
  return undefined;
}
