// Quotes a name for pasting into a shell: messages show command lines, and file names may contain
// spaces and quotes. Pure; used by messages of the store and by commands.

export function shellWord(word: string): string {
  return /^[\p{L}\p{N}_@%+=:,./-]+$/u.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
