// Questions on top of the page, in the browser's dialog element, which traps the focus and closes
// on Escape.
import { html, useLayoutEffect, useRef, useState } from './html.js';
import { Emitter, useEmitter } from './emitter.js';

/**
 * `refuse` does what was asked for. If it cannot, it returns the reason, and the question stays.
 * @typedef {{ title: string, text?: string, yes: string, value?: string, secret?: boolean,
 *   refuse?: ((answer: string) => Promise<string>) | undefined }} Question
 */

class Questions extends Emitter {
  /** @type {Question & { answer: (answer: string | undefined) => void } | undefined} */
  asked;

  /** @param {Question} question @returns {Promise<string | undefined>} */
  ask(question) {
    // Questions wait for each other: a new one must not replace the one on screen.
    const before = this.last;
    const answer = before.then(() => this.#show(question));
    this.last = answer;
    return answer;
  }

  /** @type {Promise<unknown>} */
  last = Promise.resolve();

  /** @param {Question} question @returns {Promise<string | undefined>} */
  #show(question) {
    return new Promise((resolve) => {
      this.asked = {
        ...question,
        answer: (answer) => {
          this.asked = undefined;
          this.changed();
          resolve(answer);
        },
      };
      this.changed();
    });
  }
}

const questions = new Questions();

/** @param {string} title @param {string} text @param {string} yes */
export const confirmed = async (title, text, yes) => await questions.ask({ title, text, yes }) !== undefined;

/** @param {string} title @param {string} value @param {string} yes @param {Question['refuse']} [refuse] */
export const asked = (title, value, yes, refuse) => questions.ask({ title, value, yes, refuse });

/** Asks with a password field. @param {string} title @param {string} text @param {string} yes */
export const askedSecret = (title, text, yes) => questions.ask({ title, text, yes, value: '', secret: true });

export function Dialogs() {
  const { asked: question } = useEmitter(questions);
  /** @type {{ current: HTMLDialogElement | null }} */
  const dialog = useRef(null);
  const [wrong, setWrong] = useState('');
  useLayoutEffect(() => {
    setWrong('');
    if (!question || !dialog.current) return undefined;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    if (!dialog.current.open) dialog.current.showModal();
    dialog.current.querySelector('input')?.select();
    // The browser gives the focus back only if the dialog is closed before it goes.
    return () => { if (focused?.isConnected) focused.focus(); };
  }, [question]);
  if (!question) return undefined;
  const { title, text, yes, value, secret, refuse, answer } = question;
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    const typed = dialog.current?.querySelector('input')?.value ?? '';
    const why = await refuse?.(typed) ?? '';
    // It may have been closed meanwhile.
    if (questions.asked !== question) return;
    if (why === '') answer(typed);
    else setWrong(why);
  };
  return html`<dialog ref=${dialog} aria-labelledby="question" onClose=${() => answer(undefined)} onCancel=${() => answer(undefined)}>
    <form onSubmit=${submit}>
      <h2 id="question">${title}</h2>
      ${text && html`<p>${text}</p>`}
      ${value !== undefined && html`<input type=${secret ? 'password' : 'text'} autocomplete=${secret ? 'current-password' : 'off'} aria-label=${title} defaultValue=${value} aria-invalid=${wrong !== ''} autofocus />`}
      ${wrong && html`<p class="error" role="alert">${wrong}</p>`}
      <div class="row end">
        <button type="button" onClick=${() => answer(undefined)}>Cancel</button>
        <button type="submit" class=${value === undefined ? 'danger' : 'primary'}>${yes}</button>
      </div>
    </form>
  </dialog>`;
}
