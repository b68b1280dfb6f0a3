// The text that the user is typing. Pure: a state and an action give the next state. The cursor is
// never inside a grapheme cluster, which users see as one character (a flag, a family, a letter
// with accents). Called by line-input.ts.
import { clustersOf } from '../../markdown/graphemes.js';

export interface Draft {
  readonly text: string;
  /** UTF-16 offset, at the edge of a grapheme cluster. */
  readonly cursor: number;
  /** The text of the last cut, for yank. */
  readonly cut: string;
}

export const emptyDraft: Draft = { text: '', cursor: 0, cut: '' };

export type CursorMove = 'left' | 'right' | 'word-left' | 'word-right' | 'line-start' | 'line-end' | 'start' | 'end' | 'up' | 'down';
export type Cut = 'left' | 'right' | 'word-left' | 'word-right' | 'line-start' | 'line-end';

export type EditAction =
  | { do: 'insert'; text: string }
  | { do: 'move'; to: CursorMove }
  /** Removes text; anything longer than one cluster is kept for yank. */
  | { do: 'delete'; to: Cut }
  | { do: 'yank' }
  | { do: 'transpose' }
  | { do: 'replace'; text: string };

/** Characters per call of the segmenter, whose time grows with the square of the text's length. */
const stretch = 512;

export function graphemes(text: string): string[] {
  const clusters: string[] = [];
  for (let at = 0, size = stretch; at < text.length;) {
    const found = Array.from(clustersOf(text.slice(at, at + size)), ({ segment }) => segment);
    // The last cluster may continue beyond the stretch.
    if (at + size < text.length) found.pop();
    clusters.push(...found);
    at += found.reduce((sum, { length }) => sum + length, 0);
    size = found.length === 0 ? size * 2 : stretch;
  }
  return clusters;
}

export function edit(draft: Draft, action: EditAction): Draft {
  const { text, cursor } = draft;
  switch (action.do) {
    case 'insert': {
      const added = sanitise(action.text);
      const whole = text.slice(0, cursor) + added + text.slice(cursor);
      return { ...draft, text: whole, cursor: edgeFrom(whole, cursor + added.length) };
    }
    case 'replace': {
      const whole = sanitise(action.text);
      return { ...draft, text: whole, cursor: whole.length };
    }
    case 'move':
      return { ...draft, cursor: target(text, cursor, action.to) };
    case 'delete': {
      const other = cutTarget(text, cursor, action.to);
      const [from, to] = other < cursor ? [other, cursor] : [cursor, other];
      const whole = text.slice(0, from) + text.slice(to);
      const single = action.to === 'left' || action.to === 'right';
      return { text: whole, cursor: edgeFrom(whole, from), cut: single || from === to ? draft.cut : text.slice(from, to) };
    }
    case 'yank':
      return edit(draft, { do: 'insert', text: draft.cut });
    case 'transpose':
      return transpose(draft);
  }
}

/** Turns line breaks into \n, keeps tabs and removes other control characters, as from a paste. */
export function sanitise(text: string): string {
  return text.replace(/\r\n?/g, '\n').replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '');
}

export type EnterMeans =
  /**
   * The text is complete. `fenced`: it was between `"""`, which are removed, so it is a message no
   * matter how it begins.
   */
  | { kind: 'send'; text: string; fenced: boolean }
  | { kind: 'break'; draft: Draft };

const fence = '"""';

/** Enter sends, unless `"""` is open or a backslash ends the line before the cursor. */
export function enter(draft: Draft): EnterMeans {
  const { text, cursor } = draft;
  if (text.trimStart().startsWith(fence)) {
    const inner = text.trimStart().slice(fence.length);
    const body = inner.trimEnd();
    if (!body.endsWith(fence)) return { kind: 'break', draft: edit(draft, { do: 'insert', text: '\n' }) };
    return { kind: 'send', text: body.slice(0, -fence.length).replace(/^\n/, '').replace(/\n$/, ''), fenced: true };
  }
  if (cursor === text.length && /(^|[^\\])(\\\\)*\\$/.test(text)) {
    return { kind: 'break', draft: edit(edit(draft, { do: 'delete', to: 'left' }), { do: 'insert', text: '\n' }) };
  }
  return { kind: 'send', text, fenced: false };
}

function target(text: string, cursor: number, to: CursorMove): number {
  switch (to) {
    case 'left': return before(text, cursor);
    case 'right': return after(text, cursor);
    case 'word-left': return cursor - lengthBefore(/(?<=([\p{L}\p{N}\p{M}_]*[^\p{L}\p{N}\p{M}_]*))/uy, text, cursor);
    case 'word-right': return cursor + /^[^\p{L}\p{N}\p{M}_]*[\p{L}\p{N}\p{M}_]*/u.exec(text.slice(cursor))![0].length;
    case 'line-start': return lineStart(text, cursor);
    case 'line-end': return lineEnd(text, cursor);
    case 'start': return 0;
    case 'end': return text.length;
    case 'up': {
      const start = lineStart(text, cursor);
      return start === 0 ? 0 : sameColumn(text, start, cursor, lineStart(text, start - 1));
    }
    case 'down': {
      const end = lineEnd(text, cursor);
      return end === text.length ? end : sameColumn(text, lineStart(text, cursor), cursor, end + 1);
    }
  }
}

/**
 * Where a cut of this kind ends. Ctrl-K at the end of a line removes the line break; Ctrl-U at its
 * start removes the one before.
 */
function cutTarget(text: string, cursor: number, to: Cut): number {
  if (to === 'word-left') {
    // As in shells: back to the space before a word, so that a path or a URL is removed as a whole.
    return cursor - lengthBefore(/(?<=(\S*\s*))/uy, text, cursor);
  }
  const end = target(text, cursor, to);
  if (end !== cursor) return end;
  if (to === 'line-end') return after(text, cursor);
  return to === 'line-start' ? before(text, cursor) : end;
}

/**
 * Length of the match that ends at the cursor. A lookbehind starts at the cursor; a forward search
 * would try every position of a long text.
 */
function lengthBefore(look: RegExp, text: string, cursor: number): number {
  look.lastIndex = cursor;
  return look.exec(text)![1]!.length;
}

function before(text: string, cursor: number): number {
  return cursor === 0 ? 0 : clustersOf(text).containing(cursor - 1)!.index;
}

function after(text: string, cursor: number): number {
  const cluster = cursor < text.length ? clustersOf(text).containing(cursor) : undefined;
  return cluster === undefined ? text.length : cluster.index + cluster.segment.length;
}

/** The first cluster edge at or after an offset: typed text may have merged with what follows. */
function edgeFrom(text: string, offset: number): number {
  const cluster = offset < text.length ? clustersOf(text).containing(offset) : undefined;
  return cluster === undefined || cluster.index === offset ? offset : cluster.index + cluster.segment.length;
}

function lineStart(text: string, cursor: number): number {
  return cursor === 0 ? 0 : text.lastIndexOf('\n', cursor - 1) + 1;
}

function lineEnd(text: string, cursor: number): number {
  const end = text.indexOf('\n', cursor);
  return end < 0 ? text.length : end;
}

/** The offset in another line that is as many clusters in as the cursor is in its own line. */
function sameColumn(text: string, start: number, cursor: number, otherStart: number): number {
  const column = graphemes(text.slice(start, cursor)).length;
  const other = graphemes(text.slice(otherStart, lineEnd(text, otherStart)));
  return otherStart + other.slice(0, column).join('').length;
}

/** Swaps the clusters around the cursor; at the end of a line, the last two. */
function transpose(draft: Draft): Draft {
  const { text, cursor } = draft;
  const middle = cursor === lineEnd(text, cursor) ? before(text, cursor) : cursor;
  const first = before(text, middle);
  const last = after(text, middle);
  if (first < lineStart(text, cursor) || first === middle || middle === last) return draft;
  return { ...draft, text: text.slice(0, first) + text.slice(middle, last) + text.slice(first, middle) + text.slice(last), cursor: last };
}
