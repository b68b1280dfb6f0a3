// The description of a file as it is stored, and as clients see it. Used by file-store.

/** OpenAI's object. */
export interface FileObject {
  id: string;
  object: 'file';
  bytes: number;
  created_at: number;
  expires_at?: number;
  filename: string;
  purpose: string;
  status: 'processed';
}

/** The stored form. `by`: name of the API key that owns it. */
export type Described = FileObject & { by?: string };

/** As clients see it. */
export function shown({ by: _by, ...file }: Described): FileObject {
  return file;
}

/** Throws for what this store did not write. */
export function parseDescribed(text: string, expectedId: string): Described {
  const value = JSON.parse(text) as Partial<Described> | null;
  const { id, bytes, created_at: made, expires_at: expires, filename, purpose, by } = value ?? {};
  const isWhole = id === expectedId && isCount(bytes) && isCount(made) && (expires === undefined || isCount(expires))
    && typeof filename === 'string' && typeof purpose === 'string' && (by === undefined || typeof by === 'string');
  if (!isWhole) throw new Error('it does not have the fields of a file');
  return value as Described;
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
