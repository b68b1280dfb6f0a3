// The languages whose code is colored, here and in the terminal.

/**
 * The grammar of highlight.js for each name that models give a language. TypeScript's grammar also
 * reads JavaScript, and that of C++ also reads C.
 * @type {ReadonlyMap<string, string>}
 */
export const languages = new Map([
  ['bash', 'sh', 'shell', 'zsh', 'console'], ['cpp', 'c++', 'cc', 'hpp', 'c', 'h'],
  ['csharp', 'cs', 'c#'], ['css'], ['diff', 'patch'], ['go', 'golang'], ['java'], ['json', 'jsonc'],
  ['kotlin', 'kt'], ['php'], ['python', 'py'], ['ruby', 'rb'], ['rust', 'rs'], ['sql'], ['swift'],
  ['typescript', 'ts', 'tsx', 'javascript', 'js', 'jsx', 'mjs', 'cjs'], ['xml', 'html', 'svg'],
  ['yaml', 'yml'], ['ini', 'toml'], ['dockerfile'], ['lua'], ['markdown', 'md'],
].flatMap((names) => names.map((name) => [name, /** @type {string} */ (names[0])])));
