// The message box at the bottom: text, attached files, and how much of the context they take.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../app/html.js';
import { Icon, IconButton } from '../app/icons.js';
import { composes } from '../app/keys.js';
import { notify } from '../app/notice.js';
import { models } from '../app/models.js';
import { askAgain, json, sentenceOf } from '../app/server.js';
import { count, characters, percent } from '../app/units.js';
import { readAttached } from './files.js';
import { session } from './session.js';

/** Characters. A longer pasted text becomes a file. */
const longPaste = 4_000;
/** Tokens are counted after this pause in typing. */
const countAfterMs = 250;
/** How often the gauge follows an answer being written. */
const growsMs = 500;
const maxLines = 12;

/** @typedef {import('../app/models.js').Model} Model */
/** @typedef {import('./tree.js').Attached} Attached */
/** @typedef {import('./drafts.js').Reading} Reading */

let readings = 0;
/** @type {Attached[]} */
const none = [];

/** @param {{ model: Model | undefined }} props */
export function Composer({ model }) {
  const { conversation, busy, drafts } = session;
  const [, draw] = useState(0);
  const text = drafts.texts.get(conversation.id) ?? '';
  const files = drafts.files.get(conversation.id) ?? none;
  /** @type {{ current: HTMLTextAreaElement | null }} */
  const box = useRef(null);
  /** @type {{ current: HTMLInputElement | null }} */
  const picker = useRef(null);
  /** The message is sent as soon as a model is known. */
  const waits = useRef(false);

  useLayoutEffect(() => {
    // What was to be sent was another text.
    waits.current = false;
    if (matchMedia('(hover: hover)').matches) box.current?.focus();
  }, [conversation.id, drafts.returned]);
  useLayoutEffect(() => fit(box.current), [text]);

  /** @param {string} next */
  const write = (next) => {
    waits.current = false;
    drafts.texts.set(conversation.id, next);
    draw((number) => number + 1);
  };
  /** Puts text in the place of what is selected in the box. @param {string} said */
  const insert = (said) => {
    const field = box.current;
    field?.setRangeText(said, field.selectionStart, field.selectionEnd, 'end');
    if (field) write(field.value);
  };
  /** Files belong to the chat they were added to, even if another is open now. @param {Attached[]} next @param {string} [id] */
  const setFiles = (next, id = conversation.id) => {
    drafts.files.set(id, next);
    session.changed();
  };
  /** @param {(list: Reading[]) => Reading[]} change */
  const setReading = (change) => {
    drafts.reading = change(drafts.reading);
    session.changed();
  };
  /** @param {Iterable<File>} given */
  const attach = async (given) => {
    const { id } = session.conversation;
    const all = [...given].map((file) => ({ file, key: readings++, chat: id, name: file.name, how: '', stop: new AbortController() }));
    setReading((others) => [...others, ...all]);
    /** @type {string[]} */
    const refused = [];
    for (const { file, key, stop } of all) {
      try {
        stop.signal.throwIfAborted();
        const read = await readAttached(
          file,
          (how) => setReading((list) => list.map((one) => (one.key === key ? { ...one, how } : one))),
          stop.signal,
        );
        setFiles([...drafts.files.get(id) ?? [], read], id);
      } catch (thrown) {
        if (!stop.signal.aborted) refused.push(sentenceOf(thrown));
        // A notice replaces the one before it.
        if (refused.length > 0) notify(refused.join(' '));
      }
      setReading((list) => list.filter((one) => one.key !== key));
    }
  };
  const reading = drafts.reading.filter(({ chat }) => chat === conversation.id);
  const isReading = reading.length > 0;
  const canSend = !busy && !isReading && (text.trim() !== '' || files.length > 0) && conversation.model !== '';
  // The text and the model may be newer than the last drawing.
  const send = () => {
    const { id, model: to } = session.conversation;
    const said = drafts.texts.get(id) ?? '';
    const given = drafts.files.get(id) ?? none;
    const unread = drafts.reading.find(({ chat }) => chat === id);
    if (unread) return notify(`Not sent yet: ${unread.name} is still being read.`);
    if (session.busy || (said.trim() === '' && given.length === 0)) return;
    waits.current = to === '';
    if (waits.current) {
      askAgain();
      void models.refresh();
      return;
    }
    if (!session.say(said, given)) return;
    drafts.texts.delete(id);
    setFiles([], id);
  };
  useEffect(() => {
    if (waits.current && conversation.model !== '') send();
  }, [conversation.model]);
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    if (event.key !== 'Enter' || event.shiftKey || composes(event)) return;
    event.preventDefault();
    send();
  };
  /** @param {ClipboardEvent} event */
  const onPaste = (event) => {
    const given = [...event.clipboardData?.files ?? []];
    const pasted = event.clipboardData?.getData('text/plain') ?? '';
    // Office programs add a picture of the text that they copy.
    if (given.length > 0 && (pasted === '' || !given.every(({ type }) => type.startsWith('image/')))) {
      event.preventDefault();
      void attach(given);
      return;
    }
    if (pasted.length <= longPaste) return;
    event.preventDefault();
    insert('');
    let number = 1;
    while (files.some(({ name }) => name === `pasted-${number}.txt`)) number++;
    setFiles([...files, { name: `pasted-${number}.txt`, text: pasted }]);
  };
  /** One button, so that it keeps the focus. @param {MouseEvent} event */
  const onSendOrStop = (event) => {
    // The second half of a double click was meant for what the button was before.
    if (busy || event.detail > 1) event.preventDefault();
    if (busy && event.detail < 2) session.stop();
  };
  /** The browser itself moves text that is dragged into the box. @param {DragEvent} event */
  const onDrag = (event) => {
    const data = event.dataTransfer;
    if (!data?.types.includes('Files')) return;
    event.preventDefault();
    if (event.type === 'drop') void attach(data.files);
  };

  return html`<form class="composer" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); send(); }} onDragOver=${onDrag} onDrop=${onDrag}>
    ${(files.length > 0 || isReading) && html`<ul class="files" aria-label="Attached files">${files.map((file, at) => html`<li key=${`${at} ${file.name}`}>
      <${Icon} name="file" /><span>${file.name}</span> <span class="dim">${characters(file.text)}</span>
      ${file.name.startsWith('pasted-') && html`<button type="button" class="quiet" onClick=${() => { insert(file.text); setFiles(files.filter((one) => one !== file)); }}>insert as text</button>`}
      <${IconButton} icon="close" label=${`Remove ${file.name}`} onClick=${() => setFiles(files.filter((one) => one !== file))} />
    </li>`)}${reading.map(({ key, name, how, stop }) => html`<li key=${`reading ${key}`} aria-busy="true">
      <${Icon} name="file" /><span>${name}</span> <span class="dim">${how || 'reading…'}</span>
      <${IconButton} icon="close" label=${`Cancel reading ${name}`} onClick=${() => stop.abort()} />
    </li>`)}</ul>`}
    <textarea ref=${box} rows="1" dir="auto" aria-label="Message" placeholder="Type a message" value=${text}
      onInput=${(/** @type {Event} */ event) => write(/** @type {HTMLTextAreaElement} */ (event.currentTarget).value)} onKeyDown=${onKey} onPaste=${onPaste}></textarea>
    <div class="composer-row">
      <input ref=${picker} type="file" multiple hidden aria-label="Files to attach" accept="text/*,application/pdf,.pdf,.csv,.md,.json,.jsonl,.yaml,.yml,.toml,.log,.js,.ts,.py,.rs,.go,.c,.h,.cpp,.java,.sh,.sql,.html,.css"
        onChange=${(/** @type {Event} */ event) => { const field = /** @type {HTMLInputElement} */ (event.currentTarget); void attach([...field.files ?? []]); field.value = ''; }} />
      <${IconButton} icon="attach" label="Attach PDFs or text files" onClick=${() => picker.current?.click()} />
      <${Gauge} text=${text} files=${files} model=${model} />
      <button type=${busy ? 'button' : 'submit'} class="send" aria-label=${busy ? 'Stop' : 'Send'} title=${busy ? 'Stop (Escape)' : 'Send (Enter)'} aria-disabled=${!busy && !canSend} onClick=${onSendOrStop}><${Icon} name=${busy ? 'stop' : 'send'} /></button>
    </div>
  </form>`;
}

/** For browsers whose CSS cannot size the box to its text. @param {HTMLTextAreaElement | null} box */
function fit(box) {
  if (!box || CSS.supports('field-sizing', 'content')) return;
  box.rows = Math.min(maxLines, box.value.split('\n').length);
}

/**
 * How much of the context the conversation and the new message take. The count of the conversation
 * comes from its last answer, even unfinished. The server counts the tokens of what comes after it:
 * messages without an answer, perhaps because they are too long, and the new one.
 * @param {{ text: string, files: import('./tree.js').Attached[], model: Model | undefined }} props
 */
function Gauge({ text, files, model }) {
  const [tokens, setTokens] = useState(0);
  const isLoaded = model?.status.value === 'loaded';
  const counted = session.path.findLastIndex(({ stats }) => stats);
  const unanswered = session.path
    .slice(counted + 1)
    .flatMap(({ attached = [], content }) => [...attached.map((file) => file.text), content]);
  const all = [...unanswered, ...files.map((file) => file.text), text].filter(Boolean).join('\n');
  useEffect(() => {
    if (all === '') setTokens(0);
    // Counting is no reason to load a model.
    if (all === '' || !isLoaded) return undefined;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      json('tokenize', { body: { model: model.id, content: all }, signal: stop.signal, quietly: true })
        .then(({ tokens: list }) => setTokens(list.length), () => undefined);
    }, countAfterMs);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [all, isLoaded, model?.id]);
  const [, draw] = useState(0);
  useEffect(() => {
    if (!session.busy) return undefined;
    const timer = setInterval(() => draw((number) => number + 1), growsMs);
    return () => clearInterval(timer);
  }, [session.busy]);
  const context = model?.context_length;
  const last = session.path[counted]?.stats;
  const used = (last ? last.promptTokens + last.tokens : 0) + tokens;
  if (context === undefined) {
    const isLoading = session.busy || model?.status.value === 'loading';
    return html`<span class="gauge dim">${!model ? '' : isLoading ? 'loading…' : 'not loaded; the first message loads it'}</span>`;
  }
  const share = Math.min(1, used / context);
  return html`<span class=${`gauge ${share > 0.9 ? 'warn' : 'dim'}`} title="Tokens in the chat and this message, out of the model's context window. The chat template adds a few.">
    <meter min="0" max="1" high="0.9" value=${share} aria-label="Context used">${percent(share)}</meter>
    <span>${count(used)} / ${count(context)} tokens</span>
  </span>`;
}
