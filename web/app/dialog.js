// Questions on top of the page, in the browser's dialog element, which traps the focus and closes
// on Escape.
import { html, useEffect, useRef } from './html.js';
import { Emitter, useEmitter } from './emitter.js';

class Questions extends Emitter {
  /** @type {{ title: string, text: string, yes: string, value?: string, secret?: boolean, answer: (answer: string | undefined) => void } | undefined} */
  asked;

  /** @param {{ title: string, text?: string, yes: string, value?: string, secret?: boolean }} question @returns {Promise<string | undefined>} */
  ask(question) {
    // Questions wait for each other: a new one must not replace the one on screen.
    const before = this.last;
    const answer = before.then(() => this.#show(question));
    this.last = answer;
    return answer;
  }

  /** @type {Promise<unknown>} */
  last = Promise.resolve();

  /** @param {{ title: string, text?: string, yes: string, value?: string, secret?: boolean }} question @returns {Promise<string | undefined>} */
  #show(question) {
    return new Promise((resolve) => {
      this.asked = {
        text: '', ...question,
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

/** @param {string} title @param {string} value @param {string} yes */
export const asked = (title, value, yes) => questions.ask({ title, value, yes });

/** Asks with a password field. @param {string} title @param {string} text @param {string} yes */
export const askedSecret = (title, text, yes) => questions.ask({ title, text, yes, value: '', secret: true });

export function Dialogs() {
  const { asked: question } = useEmitter(questions);
  /** @type {{ current: HTMLDialogElement | null }} */
  const dialog = useRef(null);
  useEffect(() => {
    if (question && dialog.current && !dialog.current.open) dialog.current.showModal();
  }, [question]);
  if (!question) return undefined;
  const { title, text, yes, value, secret, answer } = question;
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    const field = dialog.current?.querySelector('input');
    answer(field?.value ?? '');
  };
  return html`<dialog ref=${dialog} aria-labelledby="question" onClose=${() => answer(undefined)} onCancel=${() => answer(undefined)}>
    <form onSubmit=${submit}>
      <h2 id="question">${title}</h2>
      ${text && html`<p>${text}</p>`}
      ${value !== undefined && html`<input type=${secret ? 'password' : 'text'} autocomplete=${secret ? 'current-password' : 'off'} aria-label=${title} defaultValue=${value} autofocus />`}
      <div class="row end">
        <button type="button" onClick=${() => answer(undefined)}>Cancel</button>
        <button type="submit" class=${value === undefined ? 'danger' : 'primary'}>${yes}</button>
      </div>
    </form>
  </dialog>`;
}
