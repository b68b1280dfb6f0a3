// The kinds of hostile input by name, in the order in which they run.
export const kindNames: readonly string[] = ['bodies', 'schemas', 'grammars', 'patterns', 'templates', 'uploads', 'streams', 'hub', 'files', 'gguf'];

export const moduleOf = (name: string): string => new URL(`kinds/${name}.js`, import.meta.url).href;
