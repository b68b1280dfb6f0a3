// Short notices at the edge of the page, for errors and completed actions. Screen readers read them
// politely.
import { html } from './html.js';
import { IconButton } from './icons.js';
import { Emitter, useEmitter } from './emitter.js';

/** At least. A long text takes longer to read. */
const shownMs = 6_000;
const msPerCharacter = 60;

class Notices extends Emitter {
  text = '';
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /** @param {string} text */
  show(text) {
    this.text = text;
    this.changed();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.text = '';
      this.changed();
    }, Math.max(shownMs, text.length * msPerCharacter));
  }
}

const notices = new Notices();

/** @param {string} text */
export const notify = (text) => notices.show(text);

/** Takes the notice away: what it told of is over. */
export const unnotify = () => notices.show('');

export function NoticeLine() {
  const { text } = useEmitter(notices);
  // A line must not end inside of a flag.
  const parts = text.split(/(--[a-z-]+)/).map((part, at) => (at % 2 === 0 ? part : html`<code>${part}</code>`));
  return html`<div class="notice" role="status">${text && html`<div><span>${parts}</span><${IconButton} icon="close" label="Close this notice" onClick=${unnotify} /></div>`}</div>`;
}

/** @param {string} text */
export async function copyText(text) {
  try {
    // Browsers offer no clipboard to a page that came over plain HTTP from another machine.
    await navigator.clipboard.writeText(text);
    notify('Copied');
    return true;
  } catch {
    notify('The browser blocks the clipboard, as it does for pages over plain HTTP. Select the text and copy it yourself.');
    return false;
  }
}
