// How each kind of text looks: SGR parameters, with the sixteen colors of the terminal's theme.
// Without styles (NO_COLOR) the markup of the source stays, so that nothing is lost.

export interface Looks {
  /** Whether styles are on; otherwise the markup is shown. */
  readonly styles: boolean;
  readonly dim: string;
  readonly strong: string;
  readonly emphasis: string;
  readonly deleted: string;
  readonly code: string;
  readonly link: string;
  /** Looks of levels 1 to 6. */
  readonly headings: readonly string[];
  /** The look of a highlight.js scope: `keyword`, `title.function`. */
  scope(name: string): string;
}

const scopes: Readonly<Record<string, string>> = {
  keyword: '35', built_in: '36', type: '36', literal: '33', number: '33', string: '32', regexp: '32', char: '32', symbol: '33', comment: '90', doctag: '90', meta: '90',
  title: '34', section: '1;34', name: '34', attr: '36', attribute: '36', variable: '33', params: '', tag: '34', 'selector-tag': '34', 'selector-id': '34', 'selector-class': '34',
  addition: '32', deletion: '31', bullet: '33', quote: '90', link: '4', code: '36', strong: '1', emphasis: '3', property: '36', subst: '', operator: '', punctuation: '',
};

const plain: Looks = { styles: false, dim: '', strong: '', emphasis: '', deleted: '', code: '', link: '', headings: ['', '', '', '', '', ''], scope: () => '' };

export function makeLooks(styles: boolean): Looks {
  if (!styles) return plain;
  return {
    styles, dim: '2', strong: '1', emphasis: '3', deleted: '9', code: '36', link: '4', headings: ['1;4', '1', '1;3', '3', '3', '3'],
    scope: (name) => scopes[name] ?? scopes[name.split('.')[0]!] ?? '',
  };
}

/** Combines two looks. */
export function both(a: string, b: string): string {
  return a === '' ? b : b === '' || a.split(';').includes(b) ? a : `${a};${b}`;
}
