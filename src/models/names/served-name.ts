// Names under which a server shows its models and their groups, in any language.

export const servedNameRule = 'a name of 1 to 200 characters, none of them a control character';

export function isServedName(name: unknown): name is string {
  return typeof name === 'string' && name !== '' && name.length <= 200 && !/\p{Cc}/u.test(name);
}
