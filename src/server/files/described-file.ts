// The description of a file as it is stored, and as clients see it, and what the names in the
// folder mean. Used by file-store.

const idForm = /^file-[0-9a-f]{48}$/;
export const isFileId = (id: unknown): boolean => typeof id === 'string' && idForm.test(id);
/** Ending of a description, after its file's id. */
export const described = '.json';

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

/** What counts for the key that owns it. */
export interface Owned {
  by?: string | undefined;
  bytes: number;
  expires_at?: number | undefined;
}

export const nowSeconds = (): number => Math.floor(Date.now() / 1_000);

export const hasExpired = ({ expires_at: expires }: Owned): boolean => expires !== undefined && expires <= nowSeconds();

/** The descriptions. */
export function describedAmong(names: readonly string[]): string[] {
  return names.filter((name) => name.endsWith(described) && idForm.test(name.slice(0, -described.length)));
}

/** Ids of files that have bytes but no description. */
export function unlistedIn(names: readonly string[]): Set<string> {
  const all = new Set(names);
  return new Set(names.filter((name) => idForm.test(name) && !all.has(name + described)));
}

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
