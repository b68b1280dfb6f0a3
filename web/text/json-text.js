// JSON for people to read.

/** Strings, marks, and numbers or words. */
const parts = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{},:]|[^\s[\]{},:"]+/g;

/**
 * Indents JSON and changes nothing else: writing what was parsed would round integers above 2^53.
 * Throws a SyntaxError if the text is not JSON.
 * @param {string} text
 */
export function indented(text) {
  JSON.parse(text);
  const found = text.match(parts) ?? [];
  let depth = 0;
  let out = '';
  const line = () => `\n${'  '.repeat(depth)}`;
  found.forEach((part, at) => {
    const isEmpty = /^(\{\}|\[\])$/.test(`${found[at - 1] ?? ''}${part}`);
    if (part === '}' || part === ']') {
      depth--;
      if (!isEmpty) out += line();
    }
    out += part;
    if (part === '{' || part === '[') {
      depth++;
      if (!'}]'.includes(found[at + 1] ?? '')) out += line();
    } else if (part === ',') out += line();
    else if (part === ':') out += ' ';
  });
  return out;
}
