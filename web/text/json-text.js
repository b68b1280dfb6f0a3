// JSON for people to read.

/** Strings, marks, and numbers or words. */
const parts = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{},:]|[^\s[\]{},:"]+/g;

/** Deeper values stay on one line: indenting them would take the square of their length. */
const deepest = 20;

/**
 * Indents JSON and changes nothing else: writing what was parsed would round integers above 2^53.
 * Text that is not JSON stays as it is.
 * @param {string} text
 */
export function indented(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  const found = text.match(parts) ?? [];
  let depth = 0;
  let out = '';
  const line = () => (depth > deepest ? '' : `\n${'  '.repeat(depth)}`);
  found.forEach((part, at) => {
    const isEmpty = /^(\{\}|\[\])$/.test(`${found[at - 1] ?? ''}${part}`);
    if (part === '}' || part === ']') {
      if (!isEmpty) out += line().slice(0, -2);
      depth--;
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
