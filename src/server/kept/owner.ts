// Whose a file, a batch or a stored response is: of the API key that it was made with. Pure.
export interface Owner {
  /** Name of the API key; undefined where the server asks for none. */
  readonly name: string | undefined;
  /** Whether what was made with the key of that name is there for this one. */
  has(by: string | undefined): boolean;
}

/** Where no keys are asked for, all is everybody's. */
export const everyone: Owner = { name: undefined, has: () => true };

/** What was made before keys were asked for is the admins'. */
export function ownerWith({ name, admin }: { name: string; admin: boolean }): Owner {
  return { name, has: (by) => (by === undefined ? admin : by === name) };
}
