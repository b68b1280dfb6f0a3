// Checks the addresses of a cluster in --replicas and --listen. Used by the command and the
// generators in this folder.
import { isIP } from 'node:net';
import { RecuaError } from '../errors.js';

export interface Replica {
  /** Its name in the configuration: replica1. */
  name: string;
  /** Without brackets. */
  host: string;
  port: number;
  secure: boolean;
}

export interface Cluster {
  replicas: readonly Replica[];
  /** Where the balancer listens; without a host, on every address. */
  listen: { host: string; port: number };
  /** File with the certificate authorities of https replicas. */
  authorities: string;
  /** The name in the certificates of all https replicas; '' means each one's host. */
  tlsName: string;
  /** How many requests each replica runs at once. */
  parallel: number;
}

/** A configuration, and notes on its limits for the user. */
export interface Written {
  text: string;
  notes: readonly string[];
}

const mostReplicas = 1000;
const misuse = (message: string): RecuaError => new RecuaError('invalid_usage', message);

/** Parses `URL,URL,…`. Throws `invalid_usage` that names the invalid part. */
export function readReplicas(text: string): Replica[] {
  const parts = text.split(',').map((part) => part.trim());
  if (text.trim() === '') throw misuse('Expected the addresses of the replicas: --replicas http://10.0.0.1:8080,http://10.0.0.2:8080, got none.');
  if (parts.length > mostReplicas) throw misuse(`Expected at most ${mostReplicas} replicas, got ${parts.length}.`);
  const seen = new Set<string>();
  return parts.map((part, index) => {
    const { host, port, secure } = readReplica(part);
    const address = addressText(host, port);
    if (seen.has(address)) throw misuse(`Expected each replica once in --replicas, got ${address} twice.`);
    seen.add(address);
    return { name: `replica${index + 1}`, host, port, secure };
  });
}

function readReplica(part: string): Omit<Replica, 'name'> {
  const wrong = (why: string): RecuaError => misuse(`Expected addresses such as http://10.0.0.1:8080 in --replicas, got ${JSON.stringify(part)}: ${why}.`);
  if (part === '') throw wrong('there is nothing between two commas');
  const url = URL.canParse(part) ? new URL(part) : undefined;
  if (!url || /\s/.test(part) || !/^https?:\/\//i.test(part)) throw wrong('that is no URL of http or https');
  if (url.username !== '' || url.password !== '') throw wrong('keys are the clients\' own; the balancer passes them on');
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '' || /[?#]/.test(part)) throw wrong('give only the scheme, host and port; a path is not passed on');
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (!isHost(host)) throw wrong(`${JSON.stringify(host)} is no address and no host name`);
  const secure = url.protocol === 'https:';
  const port = url.port === '' ? (secure ? 443 : 80) : Number(url.port);
  if (port === 0) throw wrong('no server listens on port 0');
  return { host, port, secure };
}

/** Parses `host:port`, `[::1]:port`, `:port` or `port`. Throws `invalid_usage`. */
export function readListen(text: string): Cluster['listen'] {
  const [, bracketed, plain = '', digits] = /^(?:(?:\[([^\]]*)\]|([^:]*)):)?(\d{1,5})$/.exec(text.trim()) ?? [];
  const host = bracketed ?? plain;
  const port = Number(digits);
  const isGood = digits !== undefined && port >= 1 && port <= 65_535 && (bracketed === undefined ? host === '' || host === '*' || isHost(host) : isIP(host) === 6);
  if (!isGood) throw misuse(`Expected where the balancer listens, such as 127.0.0.1:8000 or :8000, for --listen, got ${JSON.stringify(text)}.`);
  return { host: host === '*' ? '' : host, port };
}

function isHost(host: string): boolean {
  return isIP(host) !== 0 || /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\.?$/i.test(host);
}

/**
 * The name that each certificate must carry, by host. Throws `invalid_usage`: neither balancer
 * checks a certificate against an address.
 */
export function certifiedName({ host }: Replica, tlsName: string): string {
  if (tlsName === '' && isIP(host) !== 0) throw misuse(`Balancers check certificates against names, not addresses. Expected the name in the certificate of https://${host}, --tls-name models.example.com, got none.`);
  return tlsName === '' ? host : tlsName;
}

/** Whether the host is a name that a resolver must look up. */
export const isName = (host: string): boolean => isIP(host) === 0 && host !== 'localhost';

export function addressText(host: string, port: number): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
