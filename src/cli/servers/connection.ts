// How to reach a server's address: over the network, through a socket in the file system, or by TLS
// with a self-signed certificate that the server registered for its user.
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import type { ConnectionOptions } from 'node:tls';
import { socketPath } from '../../settings/address.js';

export interface Address {
  /** Such as `http://127.0.0.1:8080`, or `unix:/run/recua.sock`. */
  url: string;
  /** The API key, if the server requires one. */
  key?: string | undefined;
  /** SHA-256 of the certificate. Only this certificate is trusted, no matter who signed it. */
  certificate?: string | undefined;
}

type Created = (error: Error | null, stream?: Duplex) => void;

class SocketAgent extends HttpAgent {
  readonly #path: string;

  constructor(path: string) {
    super();
    this.#path = path;
  }

  override createConnection(): Duplex {
    return connect(this.#path);
  }
}

/** Hands out a connection, and thus sends data, only after the certificate was checked. */
class PinnedAgent extends HttpsAgent {
  readonly #certificate: string;

  constructor(certificate: string) {
    super();
    this.#certificate = certificate;
  }

  override createConnection(options: ConnectionOptions, created: Created): undefined {
    const socket = connectTls({ ...options, rejectUnauthorized: false });
    socket.once('error', created);
    socket.once('secureConnect', () => {
      if (socket.getPeerX509Certificate()?.fingerprint256 === this.#certificate) {
        socket.off('error', created);
        created(null, socket);
      } else socket.destroy(new Error('its certificate is not the one it registered'));
    });
  }
}

/** A server on all addresses is called on the loopback address. */
export function reachable(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
}

/** Networks inside this machine: of containers, and of virtual machines. */
const insideMachine = /^(docker|br-|veth|virbr|cni|flannel|cali|vmnet|vboxnet|vEthernet)/;

/** The addresses at which other machines reach a server on all addresses; else none. */
export function fromElsewhere(url: string, interfaces = networkInterfaces): string[] {
  const [all] = /\/\/(0\.0\.0\.0|\[::\]):/.exec(url) ?? [];
  if (all === undefined) return [];
  let found: ReturnType<typeof networkInterfaces> = {};
  try {
    found = interfaces();
  } catch { /* A sandbox may hide them. */ }
  const addresses = Object.entries(found).filter(([name]) => !insideMachine.test(name)).flatMap(([, list = []]) => list);
  const reached = addresses.filter(({ family, internal, address }) => family === 'IPv4' && !internal && !address.startsWith('169.254.'));
  return reached.map(({ address }) => url.replace(all, `//${address}:`));
}

/** Where people open the page, a line each. */
export function pageLines(url: string): string[] {
  const others = fromElsewhere(url).map((other) => `${other}/`);
  return [`In a browser: ${reachable(url)}/`, ...(others.length > 0 ? [`From other machines: ${others.join(' or ')}`] : [])];
}

/** The base URL for `fetch`, and the agent that connects; undefined means the default agent. */
export function wayTo({ url, certificate }: Address): { base: string; agent: HttpAgent | undefined } {
  const path = socketPath(url);
  if (path !== undefined) return { base: 'http://localhost', agent: new SocketAgent(path) };
  return { base: reachable(url), agent: certificate !== undefined && url.startsWith('https:') ? new PinnedAgent(certificate) : undefined };
}
