// A connection that failed, stalled or broke: what happened, whether a retry can help, and a
// sentence for the user. Thrown by web-request.ts; the caller that gives up turns it into a
// RecuaError.
import { getProxyForUrl } from 'proxy-from-env';
import { RecuaError } from '../../errors.js';

type FaultKind =
  /** The host name has no address. */
  | 'name'
  | 'refused'
  | 'certificate'
  | 'proxy'
  /** In a circle, or to no web address. */
  | 'redirect'
  | 'stalled'
  /** Reset, unreachable, and all other system errors. */
  | 'broken'
  /** The other side violates the protocol. */
  | 'protocol';

const kinds: Readonly<Record<string, FaultKind>> = {
  ENOTFOUND: 'name', EAI_AGAIN: 'name', EAI_NODATA: 'name', EAI_FAIL: 'name',
  ECONNREFUSED: 'refused', PROXY_REFUSED: 'proxy',
};

export class ConnectionFault extends Error {
  readonly kind: FaultKind;
  readonly url: URL;

  constructor(kind: FaultKind, url: URL, message: string, cause?: unknown) {
    super(message, { cause });
    this.kind = kind;
    this.url = url;
  }

  static from(thrown: unknown, url: URL): ConnectionFault {
    if (thrown instanceof ConnectionFault) return thrown;
    const { code, message } = thrown as NodeJS.ErrnoException;
    const certificate = code !== undefined && /CERT|SIGNATURE|SELF_SIGNED|ERR_TLS/.test(code);
    return new ConnectionFault(certificate ? 'certificate' : kinds[code ?? ''] ?? 'broken', url, reasonOf(code, message), thrown);
  }

  /** Retrying does not change certificates, proxies or redirects. */
  get passing(): boolean {
    return this.kind !== 'certificate' && this.kind !== 'proxy' && this.kind !== 'redirect';
  }

  /** `huggingface.co`, and the proxy if there is one. */
  get place(): string {
    const proxy = getProxyForUrl(this.url.href);
    return `${this.url.host}${proxy === '' ? '' : ` through the proxy ${withoutPassword(proxy)}`}`;
  }

  /** The error for giving up. */
  toError(): RecuaError {
    return new RecuaError('hub_unreachable', `${this.place} cannot be reached: ${this.message}. ${this.#advice()}`, { cause: this });
  }

  #advice(): string {
    const proxied = getProxyForUrl(this.url.href) !== '';
    switch (this.kind) {
      case 'certificate':
        return 'Behind a proxy that opens TLS connections, set NODE_EXTRA_CA_CERTS to the file with its CA certificate.';
      case 'proxy':
        return 'Expected a proxy that lets this through, as HTTPS_PROXY=http://user:password@host:port; NO_PROXY names hosts to reach directly.';
      case 'name':
      case 'refused':
      case 'stalled':
      case 'broken':
      case 'redirect':
      case 'protocol':
        return proxied
          ? 'Check the network and the proxy (HTTPS_PROXY, HTTP_PROXY, NO_PROXY).'
          : 'Check the network. To use a proxy, set HTTPS_PROXY; to use another hub, set HF_ENDPOINT.';
    }
  }
}

function reasonOf(code: string | undefined, message: string): string {
  switch (code) {
    case 'ENOTFOUND': return 'the name cannot be found (ENOTFOUND)';
    case 'EAI_AGAIN': return 'the name cannot be looked up, perhaps there is no network (EAI_AGAIN)';
    case 'ECONNREFUSED': return 'the connection was refused (ECONNREFUSED)';
    case 'ECONNRESET': case 'ERR_STREAM_PREMATURE_CLOSE': case 'EPIPE': return 'the connection was cut';
    case 'ENETUNREACH': case 'EHOSTUNREACH': return `there is no route to it, perhaps no network (${code})`;
    case 'ETIMEDOUT': return 'it does not answer (ETIMEDOUT)';
    default: {
      // node-fetch repeats the address, which may be a signed one.
      const reason = message.replace(/^request to .* failed, reason: /, '') || 'no reason was given';
      return code === undefined || reason.includes(code) ? reason : `${reason} (${code})`;
    }
  }
}

function withoutPassword(proxy: string): string {
  if (!URL.canParse(proxy)) return proxy.replace(/\/\/.*@/, '//');
  const { protocol, host } = new URL(proxy);
  return `${protocol}//${host}`;
}
