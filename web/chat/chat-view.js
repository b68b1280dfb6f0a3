// The open conversation: model picker, messages, message box.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../app/html.js';
import { useEmitter } from '../app/emitter.js';
import { IconButton } from '../app/icons.js';
import { keepFocus } from '../app/kept-focus.js';
import { useEscape } from '../app/keys.js';
import { ModelsError, useModels } from '../app/models.js';
import { beforePrint } from '../app/printing.js';
import { inBrowser, inTab } from '../app/stored.js';
import { Composer } from './composer.js';
import { MessageView } from './message.js';
import { session } from './session.js';
import { SettingsPanel } from './settings-panel.js';
import { lacksResults, resultsOf } from './tree.js';

/** @typedef {import('./tree.js').Message} Message */
/** @typedef {import('../app/models.js').Model} Model */

/** Messages that a long conversation shows when it opens. */
const firstShown = 100;
const groupSize = 20;
/** The view follows new text when it is scrolled this near to the end. */
const followPx = 80;

/** @param {{ id: string }} props */
export function ChatView({ id }) {
  useEmitter(session);
  const models = useModels(5_000);
  const [settingsOpen, setSettingsOpen] = useState(false);
  const [shown, setShown] = useState(firstShown);
  const { conversation, path, busy, pair } = session;

  // Before the next event, in which a message may be sent into a new chat.
  useLayoutEffect(() => {
    if (id === '' && session.messages.size > 0) session.begin(conversation.model);
  }, [id]);
  // Not after the next paint: the user may go elsewhere before it.
  useLayoutEffect(() => {
    setShown(firstShown);
    if (id !== '') void session.open(id);
  }, [id]);
  useEffect(() => beforePrint(() => setShown(Infinity)), []);
  /** @type {{ current: HTMLElement | null }} */
  const body = useRef(null);
  const panel = () => /** @type {HTMLElement | null | undefined} */ (body.current?.querySelector('.settings'));
  // The panel comes last in the document, far from its button.
  useLayoutEffect(() => {
    if (settingsOpen) panel()?.focus();
  }, [settingsOpen]);
  const closeSettings = () => {
    const opener = body.current?.parentElement?.querySelector('[aria-label="Chat settings"]');
    if (panel()?.contains(document.activeElement)) /** @type {HTMLElement} */ (opener).focus();
    setSettingsOpen(false);
  };
  // A chat without a model takes the one chosen last, else a loaded one, else the first.
  useEffect(() => {
    if (!models.asked || models.find(conversation.model)) return;
    const { chatting } = models;
    const usual = chatting.find((model) => model.id === inBrowser.get('model')) ?? chatting.find(({ status }) => status.value === 'loaded') ?? chatting[0];
    if (usual && (session.messages.size === 0 || conversation.model === '')) session.change({ model: usual.id });
  }, [models.list, conversation.id]);
  // Put the conversation's id in the address once it has a message. A reload may come at once.
  useLayoutEffect(() => {
    if (session.messages.size > 0 && id !== conversation.id && id === '') location.replace(`#/chat/${conversation.id}`);
  }, [session.messages.size]);
  useEscape(busy, () => session.stop(), { isOutermost: true });

  const model = models.find(conversation.model);
  const isPair = pair.length > 1;
  const visible = isPair ? path.slice(0, -1) : path;
  const from = Math.max(0, visible.length - shown);

  return html`<section class="chat" aria-label="Chat">
    <header class="bar">
      <${ModelPicker} label="Model" value=${conversation.model} models=${models.chatting} asked=${models.asked} choose=${(/** @type {string} */ to) => { inBrowser.set('model', to); session.change({ model: to }); }} />
      ${conversation.second !== '' && html`<${ModelPicker} label="Second model" value=${conversation.second} models=${models.chatting} asked=${models.asked} choose=${(/** @type {string} */ to) => session.change({ second: to })} />`}
      <span class="stretch"></span>
      <${IconButton} icon="two" label="Two models side by side" aria-pressed=${conversation.second !== ''} onClick=${() => session.change({ second: conversation.second === '' ? otherThan(conversation.model, models.chatting) : '' })} />
      <${IconButton} icon="settings" label="Chat settings" aria-expanded=${settingsOpen} aria-pressed=${Object.keys(conversation.settings).length > 0} onClick=${() => (settingsOpen ? closeSettings() : setSettingsOpen(true))} />
    </header>
    <div class="chat-body" ref=${body}>
      <div class="column">
        <${Scroller} key=${conversation.id} busy=${busy} count=${path.length}>
          ${path.length > 0 && html`<h1 class="hidden">${conversation.title}</h1>`}
          ${path.length === 0 && html`<${Welcome} id=${conversation.model} model=${model} error=${models.error} hasModels=${models.asked && models.list.length > 0} asked=${models.asked} />`}
          ${from > 0 && html`<button type="button" class="earlier" onClick=${() => setShown(shown + 200)}>Show earlier messages (${from})</button>`}
          ${groupsOf(visible, from).map(({ key, messages }) => html`<div class="group" key=${key}>${messages.map((message) => messageView(message, message === path.at(-1), path))}</div>`)}
          ${isPair && html`<div class="pair">${pair.map((message) => html`<div class=${`pair-side ${message === path.at(-1) ? 'chosen' : ''}`} key=${message.id}>
            ${messageView(message, true, path)}
            ${!session.running.has(message.id) && html`<button type="button" class=${message === path.at(-1) ? 'primary' : ''} aria-pressed=${message === path.at(-1)} onClick=${() => session.choose(message)}>${message === path.at(-1) ? 'Chosen' : 'Continue with this answer'}</button>`}
          </div>`)}</div>`}
        <//>
        <${Composer} model=${model} />
      </div>
      ${settingsOpen && html`<${SettingsPanel} key=${conversation.id} model=${conversation.model} isLoaded=${model?.status.value === 'loaded'} close=${closeSettings} />`}
    </div>
    <${Spoken} busy=${busy} id=${conversation.id} />
  </section>`;
}

/** @param {Message} message @param {boolean} isLast @param {Message[]} path */
function messageView(message, isLast, path) {
  const live = session.running.has(message.id);
  const results = message.toolCalls?.length ? resultsOf(message, path) : none;
  // Once the chat went on, a result would stand in the wrong place.
  const takesResults = [message, ...results].includes(/** @type {Message} */ (path.at(-1)));
  const canAsk = isLast && !session.busy && (message.role !== 'tool' || !lacksResults(path));
  const all = session.siblings(message);
  const version = `${all.length} ${all.indexOf(message)} ${session.busy} ${message.error ?? ''} ${results.length}`;
  return html`<${MessageView} key=${message.id} message=${message} live=${live} isLast=${isLast} canAsk=${canAsk} takesResults=${takesResults} results=${results.length === 0 ? none : results} version=${version} />`;
}

/**
 * The browser skips layout of groups far from the window. Checking each of thousands of messages
 * instead would take longer than a frame.
 * @param {Message[]} all @param {number} from
 */
function groupsOf(all, from) {
  const groups = [];
  for (let at = from; at < all.length;) {
    const key = Math.floor(at / groupSize);
    const end = (key + 1) * groupSize;
    groups.push({ key, messages: all.slice(at, end) });
    at = end;
  }
  return groups;
}

/** @type {Message[]} */
const none = [];

/** @param {string} id @param {Model[]} models */
const otherThan = (id, models) => models.find((model) => model.id !== id)?.id ?? id;

/** @param {{ label: string, value: string, models: Model[], asked: boolean, choose: (id: string) => void }} props */
function ModelPicker({ label, value, models, asked, choose }) {
  const known = models.some(({ id }) => id === value);
  return html`<label class="picker"><span class="hidden">${label}</span>
    <select value=${value} onChange=${(/** @type {Event} */ event) => choose(/** @type {HTMLSelectElement} */ (event.currentTarget).value)}>
      ${!known && html`<option value=${value}>${value ? `${value}${asked ? ' (not here)' : ''}` : asked ? 'No model' : '…'}</option>`}
      ${models.map(({ id, status }) => html`<option key=${id} value=${id}>${id}${status.value === 'loaded' ? '' : ` (${status.value})`}</option>`)}
    </select>
  </label>`;
}

/** @param {{ id: string, model: Model | undefined, error: string, hasModels: boolean, asked: boolean }} props */
function Welcome({ id, model, error, hasModels, asked }) {
  const state = model?.status.value;
  const where = state === 'loaded' ? `${id} runs on this server.` : state === 'loading' ? `${id} is loading on this server.` : `Your first message loads ${id} on this server.`;
  return html`<div class="welcome">
    <img src="ui/icon.svg" alt="" width="48" height="48" />
    <h1>${error ? 'Cannot list the models' : asked && !hasModels ? 'No model yet' : 'Start a chat'}</h1>
    ${error ? html`<${ModelsError} />` : html`<p class="dim">${asked && !hasModels ? html`Pull one on the <a href="#/models">Models</a> page.${inTab.get('apiKey') === null ? '' : ' If the server has models, your API key may not use them.'}` : model ? `${where} Your messages stay between this browser and the server.` : ''}</p>`}
  </div>`;
}

/**
 * Keeps the end in view, unless the user has scrolled up.
 * @param {{ children: any, busy: boolean, count: number }} props
 */
function Scroller({ children, busy, count }) {
  /** @type {{ current: HTMLElement | null }} */
  const at = useRef(null);
  const follows = useRef(true);
  const top = useRef(0);
  const toEnd = () => {
    const box = at.current;
    if (!box || !follows.current) return;
    box.scrollTop = box.scrollHeight;
    top.current = box.scrollTop;
  };
  useLayoutEffect(() => {
    follows.current = true;
    toEnd();
  }, [count]);
  useEffect(() => {
    const box = at.current;
    if (!box?.firstElementChild) return undefined;
    const observer = new ResizeObserver(toEnd);
    for (const one of [box, box.firstElementChild]) observer.observe(one);
    const end = keepFocus(box, () => /** @type {HTMLElement | null} */ (document.querySelector('.composer textarea'))?.focus());
    return () => {
      observer.disconnect();
      end();
    };
  }, []);
  const onScroll = () => {
    const box = at.current;
    if (!box) return;
    // The text may have grown since toEnd(), which causes this event, too. Only the user goes up.
    if (box.scrollHeight - box.scrollTop - box.clientHeight < followPx) follows.current = true;
    else if (box.scrollTop < top.current) follows.current = false;
    top.current = box.scrollTop;
  };
  return html`<div class="scroller" ref=${at} onScroll=${onScroll} tabindex="0" role="log" aria-live="off" aria-label="Messages" aria-busy=${busy}><div class="messages">${children}</div></div>`;
}

/** Tells screen readers when an answer begins, and reads its start once it is complete. @param {{ busy: boolean, id: string }} props */
function Spoken({ busy, id }) {
  const [text, setText] = useState('');
  /** The chat that is being answered. */
  const was = useRef('');
  useEffect(() => {
    if (busy) setText('The model is answering.');
    else if (was.current === id) {
      const { error, content = '' } = session.path.at(-1) ?? {};
      // An error is an alert of its own.
      setText(error ? '' : `The answer is complete. ${content.slice(0, 500)}`);
    } else setText('');
    was.current = busy ? id : '';
  }, [busy, id]);
  return html`<p class="hidden" aria-live="polite">${text}</p>`;
}
