// Classifies a line of Markdown by its beginning: heading, list item, quote, rule, fence. Pure.
import { cellsOf } from './cells.js';
import type { Row } from './cells.js';
import type { Looks } from './looks.js';

export interface TextLine {
  kind: 'text';
  /** Prefixes of its first row on the screen, and of the others. */
  first: Row;
  rest: Row;
  /** The line without its marker. */
  text: string;
  look: string;
  isItem: boolean;
}

export type Line = TextLine | { kind: 'rule' } | { kind: 'blank'; prefix: Row };

/** Beginnings that could still become different kinds of lines. */
export const undecided = /^[\s>]*(?:[-*_+=]{1,3}|#{1,6}|[`~]{1,3}|[-*+] +\[[ xX]?\]?)?$/;

/** Its indentation, mark and language. A line may be any length, so nothing is tried twice. */
export const fenceOpening = /^(\s*)(`{3,}(?!`)|~{3,}(?!~))(?=[^`]*$)\s*([^`\s]*)/;

const item = /^(\s*)([-*+]|\d{1,9}[.)])(?:\s+|$)(?:\[([ xX])\]\s+)?/;
/** Maximum indentation on the screen. */
const mostIndent = 16;

/** `inList`: a list item came before, so an indented line belongs to it. */
export function readLine(line: string, inList: boolean, looks: Looks): Line {
  const { prefix, text } = withoutQuotes(line, looks);
  const quoted = prefix.length > 0 ? looks.dim : '';
  if (text.trim() === '') return { kind: 'blank', prefix };
  if (/^ {0,3}([-*_])(?:\s*\1){2,}\s*$/.test(text) || /^={3,}\s*$/.test(text)) return { kind: 'rule' };
  const heading = /^ {0,3}(#{1,6})\s/.exec(text);
  if (heading) {
    const [all, marks] = heading as unknown as [string, string];
    const title = text.slice(all.length).trim().replace(/\s#+$/, '').trimEnd();
    return { kind: 'text', first: looks.styles ? prefix : [...prefix, ...cellsOf(`${marks} `)], rest: prefix, text: title, look: looks.headings[marks.length - 1]!, isItem: false };
  }
  const listed = item.exec(text);
  if (listed && (listed[0].trim().length > 1 || /^\s*[-*+]\s/.test(text))) {
    const [marker, indent, sign, box] = listed;
    const margin = blanks(Math.min(columnsOf(indent!), mostIndent));
    const bullet = box === undefined ? /\d/.test(sign!) ? sign! : '•' : box === ' ' ? '☐' : '☑';
    return {
      kind: 'text', first: [...prefix, ...cellsOf(`${margin}${bullet} `)], rest: [...prefix, ...cellsOf(margin + blanks(cellsOf(bullet).reduce((sum, { width }) => sum + width, 1)))],
      text: text.slice(marker.length), look: quoted, isItem: true,
    };
  }
  const [indent] = /^\s*/.exec(text)!;
  const margin = cellsOf(blanks(Math.min(inList || columnsOf(indent) >= 4 ? columnsOf(indent) : 0, mostIndent)));
  return { kind: 'text', first: [...prefix, ...margin], rest: [...prefix, ...margin], text: text.slice(indent.length).trimEnd(), look: quoted, isItem: false };
}

function withoutQuotes(line: string, looks: Looks): { prefix: Row; text: string } {
  const [marks] = /^(?: {0,3}>)*/.exec(line)!;
  const depth = Math.min(marks.replaceAll(' ', '').length, mostIndent / 2);
  return { prefix: depth === 0 ? [] : cellsOf('│ '.repeat(depth), looks.dim), text: depth === 0 ? line : line.slice(marks.length).replace(/^ /, '') };
}

function columnsOf(indent: string): number {
  return indent.replaceAll('\t', '    ').length;
}

function blanks(count: number): string {
  return ' '.repeat(count);
}
