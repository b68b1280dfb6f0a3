// Bytes that can be read at any offset: a file on disk, or a file of the hub read by ranges. What the GGUF reader reads from.

export interface ByteSource {
  /** For people and errors: a path, or `owner/repo/file`. */
  readonly name: string;
  readonly sizeBytes: number;
  /** Fills `target` from `offset` on, as far as there are bytes; resolves to how many were read. */
  read(target: Buffer, offset: number): Promise<number>;
  close(): Promise<void>;
}
