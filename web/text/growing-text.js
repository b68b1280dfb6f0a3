// Draws an answer's Markdown while it grows. Complete blocks are drawn once; only the last one is
// redrawn. Drawing takes at most a tenth of the time, and less if the text comes faster than anyone
// reads, so that even the fastest model leaves the page responsive.
import { longestFormula, tokensOf } from './markdown.js';
import { blocks, element } from './elements.js';

/** Characters. A longer paragraph, list or table is shown as source: nobody reads it as one. */
const longestBlock = 20_000;
/** The same limit for a code block, which is cheap to parse. */
const longestCode = 200_000;
/**
 * Pause after drawing, as a multiple of the time that this thread took, with layout and paint. The
 * browser's other threads take about as long.
 */
const restFactor = 19;
const fastRestFactor = 60;
/** Characters per millisecond that nobody reads. */
const fastPerMs = 0.8;
/** Shortest pause: at 20 redraws a second text seems to flow. */
const leastRestMs = 50;

export class GrowingText {
  /** @type {HTMLElement} */
  #into;
  /** The whole text. */
  #given = '';
  /** The text of the last drawing, with `\n` line breaks. */
  #text = '';
  /** Length of the complete blocks in `#text`. */
  #settled = 0;
  /** All of the text was taken for complete, so the last block is among them. */
  #isComplete = false;
  /** The elements of incomplete blocks. @type {Node[]} */
  #open = [];
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #restUntilMs = 0;
  /** The last drawing. */
  #drawn = { length: 0, ms: 0 };

  /** @param {HTMLElement} into */
  constructor(into) {
    this.#into = into;
  }

  /**
   * Keeps the drawn blocks if the text only got longer.
   * @param {string} given
   * @param {boolean} complete
   */
  show(given, complete) {
    this.#given = given;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const waitMs = this.#restUntilMs - performance.now();
    if (complete || waitMs <= 0) this.#draw(complete);
    else this.#timer = setTimeout(() => this.#draw(false), waitMs);
  }

  close() {
    clearTimeout(this.#timer);
  }

  #clear() {
    this.#into.replaceChildren();
    this.#open = [];
    this.#settled = 0;
  }

  /** @param {boolean} complete */
  #draw(complete) {
    const startMs = performance.now();
    const text = this.#given.includes('\r') ? this.#given.replace(/\r\n?/g, '\n') : this.#given;
    // A complete answer that goes on may go on in its last block.
    const goesOn = this.#isComplete && (!complete || text.length > this.#text.length);
    if (goesOn || !text.startsWith(this.#text.slice(0, this.#settled))) this.#clear();
    this.#text = text;
    this.#isComplete = complete;
    for (const node of this.#open) /** @type {ChildNode} */ (node).remove();
    this.#open = [];
    const tail = this.#text.slice(this.#settled);
    for (const part of partsOf(tail)) this.#drawPart(part, complete);
    const endMs = performance.now();
    this.#restUntilMs = endMs + leastRestMs;
    const isFast = text.length - this.#drawn.length > fastPerMs * (startMs - this.#drawn.ms);
    this.#drawn = { length: text.length, ms: startMs };
    if (complete || document.hidden) return;
    // For long texts, layout and paint are most of the work.
    afterFrame((frameMs) => {
      this.#restUntilMs = Math.max(this.#restUntilMs, endMs + (endMs - startMs + frameMs) * (isFast ? fastRestFactor : restFactor));
    });
  }

  /** @param {string} part @param {boolean} complete */
  #drawPart(part, complete) {
    const end = this.#settled + part.length;
    const isLast = end >= this.#text.length;
    if (part.length > (isCode(part) ? longestCode : longestBlock)) {
      this.#settle(plainPieces(part), part.length);
      return;
    }
    const tokens = tokensOf(part);
    const closed = complete || !isLast ? tokens.length : openFrom(tokens);
    for (const token of tokens.slice(0, closed)) this.#settle(blocks([token]), token.raw.length);
    if (closed === tokens.length) this.#settled = end;
    this.#open = blocks(tokens.slice(closed), false);
    this.#into.append(...this.#open);
  }

  /** @param {Node[]} nodes @param {number} length */
  #settle(nodes, length) {
    this.#into.append(...nodes);
    this.#settled += length;
  }
}

/**
 * Tells how long the browser takes to lay out and paint the next frame. The page is not painted
 * while nobody sees it.
 * @param {(ms: number) => void} told
 */
function afterFrame(told) {
  requestAnimationFrame(() => {
    const startMs = performance.now();
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      told(performance.now() - startMs);
    };
    port2.postMessage(undefined);
  });
}

/**
 * The index of the first block that more text may still change: the last one, or the one before it
 * while the last has no complete line, since its first characters may belong to a list above.
 * @param {import('./markdown.js').Token[]} tokens
 */
function openFrom(tokens) {
  /** @param {number} below */
  const before = (below) => tokens.findLastIndex(({ type }, at) => at < below && type !== 'space');
  const last = before(tokens.length);
  const open = last > 0 && !tokens[last]?.raw.includes('\n') ? before(last) : last;
  const formula = tokens.findIndex(({ type, raw }) => type === 'paragraph' && opensFormula(raw));
  const fromFormula = formula < 0 ? 0 : tokens.slice(formula).reduce((sum, { raw }) => sum + raw.length, 0);
  return Math.max(0, formula >= 0 && fromFormula <= longestFormula ? Math.min(formula, open) : open);
}

/** Whether a displayed formula begins here whose end has not come. @param {string} text */
function opensFormula(text) {
  const begun = [...text.matchAll(/(?:^|\n) {0,3}(\$\$|\\\[)/g)].at(-1);
  return begun !== undefined && !text.includes(begun[1] === '$$' ? '$$' : '\\]', begun.index + begun[0].length);
}

/** @param {string} text */
const isCode = (text) => /^ {0,3}(?:```|~~~)/.test(text);

/**
 * Splits a long text into parts that are parsed one by one. Each part ends where a paragraph or a
 * code block ends.
 * @param {string} text
 */
function partsOf(text) {
  if (text.length <= longestBlock) return [text];
  const parts = [];
  for (let from = 0; from < text.length;) {
    const to = from + (isCode(text.slice(from, from + 6)) ? lengthOfCode(text, from) : lengthOfPart(text, from));
    parts.push(text.slice(from, to));
    from = to;
  }
  return parts;
}

/** Splits plain text into pieces, so that the browser lays out only the visible ones. @param {string} text */
function plainPieces(text) {
  const pieces = [];
  for (let from = 0; from < text.length;) {
    const next = text.slice(from, from + longestBlock);
    const line = from + longestBlock >= text.length ? -1 : next.lastIndexOf('\n');
    const piece = line < 0 ? next : next.slice(0, line + 1);
    pieces.push(element('pre', [piece], { class: 'long' }));
    from += piece.length;
  }
  return pieces;
}

/** @param {string} text @param {number} from */
function lengthOfCode(text, from) {
  const [, fence = '```'] = /^ {0,3}(`{3,}|~{3,})/.exec(text.slice(from, from + 100)) ?? [];
  const end = text.indexOf(`\n${fence}`, from);
  const line = end < 0 ? -1 : text.indexOf('\n', end + 1);
  return (line < 0 ? text.length : line + 1) - from;
}

/** Where a code block begins that does not end in this text; -1 if there is none. @param {string} text */
function openCode(text) {
  let [begun, mark] = [-1, ''];
  for (const { index, 1: fence = '', 2: rest = '' } of text.matchAll(/^ {0,3}(`{3,}|~{3,})([^\n]*)$/gm)) {
    if (begun < 0) [begun, mark] = [index, fence];
    else if (fence.startsWith(mark) && rest.trim() === '') begun = -1;
  }
  return begun;
}

/** @param {string} text @param {number} from */
function lengthOfPart(text, from) {
  if (text.length - from <= longestBlock) return text.length - from;
  const part = text.slice(from, from + longestBlock);
  const code = openCode(part);
  const paragraph = (code < 0 ? part : part.slice(0, code)).lastIndexOf('\n\n');
  if (paragraph > 0) return paragraph + 2;
  if (code > 0) return code;
  const next = text.indexOf('\n\n', from + longestBlock);
  return (next < 0 ? text.length : next + 2) - from;
}
