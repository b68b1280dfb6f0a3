// The terminals of `%import common.…`, as regular expressions. Pure. Called by lark.

const integer = '[0-9]+';
const decimal = '(?:[0-9]+\\.[0-9]*|\\.[0-9]+)';
const exponent = '[eE][+-]?[0-9]+';
const float = `(?:${integer}${exponent}|${decimal}(?:${exponent})?)`;
const number = `(?:${float}|${integer})`;

export const commonTerminals: Readonly<Record<string, string>> = {
  DIGIT: '[0-9]',
  HEXDIGIT: '[0-9a-fA-F]',
  INT: integer,
  SIGNED_INT: `[+-]?${integer}`,
  DECIMAL: decimal,
  _EXP: exponent,
  FLOAT: float,
  SIGNED_FLOAT: `[+-]?${float}`,
  NUMBER: number,
  SIGNED_NUMBER: `[+-]?${number}`,
  ESCAPED_STRING: '"(?:[^"\\\\\\n]|\\\\[^\\n])*"',
  LCASE_LETTER: '[a-z]',
  UCASE_LETTER: '[A-Z]',
  LETTER: '[A-Za-z]',
  WORD: '[A-Za-z]+',
  CNAME: '[_A-Za-z][_A-Za-z0-9]*',
  WS_INLINE: '[ \\t]+',
  WS: '[ \\t\\f\\r\\n]+',
  CR: '\\r',
  LF: '\\n',
  NEWLINE: '(?:\\r?\\n)+',
  SH_COMMENT: '#[^\\n]*',
  CPP_COMMENT: '//[^\\n]*',
  C_COMMENT: '/\\*(?:[^*]|\\*+[^*/])*\\*+/',
  SQL_COMMENT: '--[^\\n]*',
};
