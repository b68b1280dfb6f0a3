// The owner of a file, a batch or a stored response: the API key that it was created with. Pure.
export interface Owner {
  /** Name of the API key; undefined if the server requires none. */
  readonly name: string | undefined;
  /** Whether this owner can see what the key named `by` created. */
  has(by: string | undefined): boolean;
}

/** Without API keys, everybody sees everything. */
export const everyone: Owner = { name: undefined, has: () => true };

/** Data from before the server had keys is visible to admins. */
export function ownerWith({ name, admin }: { name: string; admin: boolean }): Owner {
  return { name, has: (by) => (by === undefined ? admin : by === name) };
}
