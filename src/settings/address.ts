// The other meaning of `--host`: a socket in the file system instead of an address. Pure.

/**
 * The path of the socket, given as `unix:PATH` or, as in llama-server, as a path that ends in
 * `.sock`. Undefined for a network host.
 */
export function socketPath(host: string): string | undefined {
  if (host.startsWith('unix:')) return host.slice('unix:'.length);
  return host.endsWith('.sock') && /[/\\]/.test(host) ? host : undefined;
}
