// A machine as native code sees it, in words. Pure, so that both sides may use it.

export interface MachineFacts {
  platform: string;
  arch: string;
  /** Version of the GNU C library; '' on musl and elsewhere. */
  glibc: string;
}

/** As people write it: `linux-x64, glibc 2.36`. */
export function machineText({ platform, arch, glibc }: MachineFacts): string {
  return `${platform}-${arch}${platform === 'linux' ? `, ${glibc === '' ? 'musl' : `glibc ${glibc}`}` : ''}`;
}
