// Describes the machine that native code runs on. Pure, so that both processes can use it.

export interface MachineFacts {
  platform: string;
  arch: string;
  /** Version of the GNU C library; '' for musl and other systems. */
  glibc: string;
}

/** As people write it: `linux-x64, glibc 2.36`. */
export function machineText({ platform, arch, glibc }: MachineFacts): string {
  return `${platform}-${arch}${platform === 'linux' ? `, ${glibc === '' ? 'musl' : `glibc ${glibc}`}` : ''}`;
}
