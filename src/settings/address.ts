// What `--host` names beside an address: a socket in the file system. Pure.

/**
 * The path of the socket: `unix:PATH`, or a path that ends in `.sock`, as llama-server takes it.
 * Undefined for a host on the network.
 */
export function socketPath(host: string): string | undefined {
  if (host.startsWith('unix:')) return host.slice('unix:'.length);
  return host.endsWith('.sock') && /[/\\]/.test(host) ? host : undefined;
}
