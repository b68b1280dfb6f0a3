// How a server's address is reached: over the network, by a socket in the file system, or by TLS
// with a certificate that nobody signed but that the server has registered for its user.
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import type { ConnectionOptions } from 'node:tls';
import { socketPath } from '../../settings/address.js';

export interface Address {
  /** Such as `http://127.0.0.1:8080`, or `unix:/run/recua.sock`. */
  url: string;
  /** For a server that asks for one. */
  key?: string | undefined;
  /** The SHA-256 of its certificate: one with that is trusted, whoever signed it, and no other. */
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

/** Gives a connection away, and so sends something, only when it is known who is there. */
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
      } else socket.destroy(new Error('it shows another certificate than it has registered'));
    });
  }
}

/** What the address is to `fetch`, and the agent that connects; undefined is the usual one. */
export function wayTo({ url, certificate }: Address): { base: string; agent: HttpAgent | undefined } {
  const path = socketPath(url);
  if (path !== undefined) return { base: 'http://localhost', agent: new SocketAgent(path) };
  // A server on all addresses is asked on this machine's own.
  const base = url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
  return { base, agent: certificate !== undefined && url.startsWith('https:') ? new PinnedAgent(certificate) : undefined };
}
