// Numbers of files and of their bytes, added up. Pure.
export interface Amount {
  files: number;
  bytes: number;
}

/** By the name of the API key. */
export type Amounts = Map<string | undefined, Amount>;

export const nothing: Amount = { files: 0, bytes: 0 };

export function sum(amounts: Iterable<Amount>): Amount {
  const all = { ...nothing };
  for (const { files, bytes } of amounts) {
    all.files += files;
    all.bytes += bytes;
  }
  return all;
}

export function add(amounts: Amounts, by: string | undefined, more: Amount): void {
  amounts.set(by, sum([amounts.get(by) ?? nothing, more]));
}
