// A name as a word to paste into a shell: messages show command lines, and files may have blanks
// and quotes in their names. Pure; used by messages of the store and by commands.

export function shellWord(word: string): string {
  return /^[\p{L}\p{N}_@%+=:,./-]+$/u.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
