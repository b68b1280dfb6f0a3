// marked, highlight.js and its languages: the same files that the page at / uses.
// Loaded before the first rendered answer begins; rendering then never waits.
import type { Token } from 'marked';

/** A node of highlight.js's output. */
export interface HighlightNode {
  scope?: string;
  children: readonly (HighlightNode | string)[];
}

interface Highlighter {
  registerLanguage(name: string, grammar: unknown): void;
  getLanguage(name: string): object | undefined;
  highlight(
    code: string,
    options: { language: string; ignoreIllegals: boolean },
  ): { _emitter: { root: HighlightNode }; _top: { parent?: object } };
}

export interface Highlighted {
  root: HighlightNode;
  /** A string, a comment or the like continues after the code. */
  isOpen: boolean;
}

export interface Libraries {
  /** The blocks of a text. */
  blocks(text: string): Token[];
  /** The spans of a line. */
  spans(line: string): Token[];
  /** Undefined for an unknown language. */
  highlight(code: string, language: string): Highlighted | undefined;
}

interface MarkedModule { Lexer: { lex(text: string, options: object): Token[]; lexInline(text: string, options: object): Token[] } }

const web = new URL('../../../web/', import.meta.url);
let loading: Promise<Libraries> | undefined;

export function loadLibraries(): Promise<Libraries> {
  return loading ??= load();
}

async function load(): Promise<Libraries> {
  const fetched = async <T>(name: string) => await import(new URL(name, web).href) as T;
  const { languages } = await fetched<{ languages: ReadonlyMap<string, string> }>('text/languages.js');
  const names = [...new Set(languages.values())];
  const [{ Lexer }, { default: highlighter }, ...grammars] = await Promise.all([
    fetched<MarkedModule>('vendor/marked.js'), fetched<{ default: Highlighter }>('vendor/highlight.js'),
    ...names.map((name) => fetched<{ default: unknown }>(`vendor/languages/${name}.js`)),
  ]);
  for (const [at, { default: grammar }] of grammars.entries()) highlighter.registerLanguage(names[at]!, grammar);
  const options = { gfm: true };
  return {
    blocks: (text) => Lexer.lex(text, options),
    spans: (line) => Lexer.lexInline(line, options),
    highlight(code, name) {
      const lower = name.toLowerCase();
      const language = languages.get(lower) ?? lower;
      if (!highlighter.getLanguage(language)) return undefined;
      const { _emitter: tree, _top: last } = highlighter.highlight(code, { language, ignoreIllegals: true });
      return { root: tree.root, isOpen: last.parent !== undefined };
    },
  };
}
