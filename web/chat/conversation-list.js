// The conversations of this browser, and those of `recua chat` if the server shows them. Pinned
// ones come first, then the newest. The search looks at titles, messages and attached files.
import { html, useEffect, useRef, useState } from '../app/html.js';
import { asked, confirmed } from '../app/dialog.js';
import { useEmitter } from '../app/emitter.js';
import { IconButton } from '../app/icons.js';
import { keepFocus } from '../app/kept-focus.js';
import { closes, useEscape } from '../app/keys.js';
import { notify } from '../app/notice.js';
import { mayAnswer, sentenceOf } from '../app/server.js';
import { savedChats } from './saved-chats.js';
import { conversationsSaying, saveAll } from './database.js';
import { exportJson, exportMarkdown, importJson } from './files.js';
import { session } from './session.js';

/** @typedef {import('./tree.js').Conversation} Conversation */

const searchAfterMs = 150;
const mostShown = 300;

/** @param {number} count */
const unshown = (count) => count > mostShown && html`<p class="dim pad">${count - mostShown} more are not shown. Search finds them.</p>`;

/** @param {number} ms */
function ageOf(ms) {
  const days = Math.floor((new Date().setHours(24, 0, 0, 0) - ms) / 86_400_000);
  return days < 1 ? 'Today' : days < 2 ? 'Yesterday' : days < 7 ? 'This week' : days < 31 ? 'This month' : 'Earlier';
}

/** @param {{ isShown: boolean, go: (to: string) => void }} props */
export function ConversationList({ isShown, go }) {
  const { list: all, conversation } = useEmitter(session);
  const { isServed, list: onServer } = useEmitter(savedChats);
  // A chat whose file is gone is this browser's alone.
  const files = new Set(onServer.map(({ name }) => name));
  const list = all.filter(({ saved }) => !saved || !files.has(saved.name));
  const [wanted, setWanted] = useState('');
  /** Ids of chats here, and names of those on the server. */
  const [saying, setSaying] = useState(/** @type {Set<string>} */ (new Set()));
  /** @type {{ current: HTMLInputElement | null }} */
  const picker = useRef(null);
  /** @type {{ current: any }} */
  const entries = useRef(null);
  useEffect(() => keepFocus(entries.current, () => entries.current.previousElementSibling.focus(), 'li'), []);
  useEffect(() => {
    const look = () => {
      if (!document.hidden) void session.look().then(() => session.files.look(session.conversation));
    };
    look();
    document.addEventListener('visibilitychange', look);
    addEventListener('focus', look);
    const unwatch = mayAnswer.watch(look);
    return () => {
      document.removeEventListener('visibilitychange', look);
      removeEventListener('focus', look);
      unwatch();
    };
  }, []);
  useEffect(() => {
    const text = wanted.trim();
    if (text === '') return undefined;
    let isOver = false;
    /** @type {string[]} */
    const all = [];
    const add = (/** @type {Set<string>} */ found) => {
      all.push(...found);
      if (!isOver) setSaying(new Set(all));
    };
    const timer = setTimeout(() => {
      for (const found of [conversationsSaying(text), savedChats.namesSaying(text)]) found.then(add, () => undefined);
    }, searchAfterMs);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [wanted]);
  const found = wanted.trim() === '' ? list : list.filter(({ id, title }) => saying.has(id) || title.toLowerCase().includes(wanted.trim().toLowerCase()));
  const terminal = onServer.map(({ name, error }) => ({ name, error, one: all.find(({ saved }) => saved?.name === name) }))
    .filter(({ name, one }) => wanted.trim() === '' || name.toLowerCase().includes(wanted.trim().toLowerCase()) || saying.has(name) || (one && saying.has(one.id)));
  const groups = Map.groupBy
    ? Map.groupBy(found.slice(0, mostShown), groupOf)
    : found.slice(0, mostShown).reduce((map, one) => map.set(groupOf(one), [...map.get(groupOf(one)) ?? [], one]), new Map());
  const ordered = [...groups].sort(([a], [b]) => Number(b === 'Pinned') - Number(a === 'Pinned'));

  const take = async (/** @type {File | undefined} */ file) => {
    if (!file) return;
    try {
      const { chats, skipped } = await importJson(file, list);
      await saveAll(chats).finally(() => session.start());
      notify(`${chats.length} ${chats.length === 1 ? 'chat' : 'chats'} imported${skipped > 0 ? `, ${skipped} skipped: already in this browser` : ''}`);
    } catch (thrown) {
      notify(sentenceOf(thrown));
    }
  };

  return html`<div class="conversations">
    <input type="search" aria-label="Search chats" placeholder="Search" value=${wanted} onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (wanted !== '' && closes(event)) setWanted(''); }} onInput=${(/** @type {Event} */ event) => setWanted(/** @type {HTMLInputElement} */ (event.currentTarget).value)} />
    <nav ref=${entries} aria-label="Chats">
      ${ordered.map(([group, ones]) => html`<section key=${group}><h2>${group}</h2><ul>${ones.map((/** @type {Conversation} */ one) => html`
        <${Entry} key=${one.id} one=${one} isOpen=${isShown && one.id === conversation.id} title=${one.title} pinned=${one.pinned} />`)}</ul></section>`)}
      ${unshown(found.length)}
      ${isServed && terminal.length > 0 && html`<section><h2>On the server (recua chat)</h2><ul>${terminal.slice(0, mostShown).map(({ name, error, one }) => one && !error
        ? html`<${Entry} key=${one.id} one=${one} isOpen=${isShown && one.id === conversation.id} title=${one.title} pinned=${one.pinned} />`
        : html`<${Unseen} key=${name} name=${name} error=${error} go=${go} />`)}</ul>${unshown(terminal.length)}</section>`}
      ${found.length === 0 && terminal.length === 0 && html`<p class="dim pad">${wanted === '' ? 'No chats yet. They are saved in this browser.' : 'Nothing found.'}</p>`}
    </nav>
    <div class="row quiet-row">
      <input ref=${picker} type="file" hidden accept=".json,application/json" aria-label="File to import" onChange=${(/** @type {Event} */ event) => { const field = /** @type {HTMLInputElement} */ (event.currentTarget); void take(field.files?.[0]); field.value = ''; }} />
      <button type="button" class="quiet" onClick=${() => picker.current?.click()}>Import</button>
      <button type="button" class="quiet" disabled=${list.length === 0} onClick=${() => attempt(() => exportJson(list, 'recua-chats', messagesOf))}>Export all</button>
    </div>
  </div>`;
}

/** With what the terminal has added. @param {Conversation} one */
async function messagesOf(one) {
  if (savedChats.isServed) await session.files.refresh(one).catch((thrown) => notify(`Exported without what is new on the server: ${sentenceOf(thrown)}`));
  return await session.chats.messagesOf(one);
}

/** Runs work that the server or the database may refuse. @param {() => Promise<unknown>} work */
const attempt = (work) => work().catch((thrown) => notify(sentenceOf(thrown)));

const fileStays = 'Its copy among the chats of recua chat stays: the server does not show them now.';

/** @param {Conversation} one */
const groupOf = ({ pinned, changedMs }) => (pinned ? 'Pinned' : ageOf(changedMs));

/** The name of the file that is read for its menu, which then opens. */
let readForMenu = '';
/** The chat that moves to another group, with the focus on its menu's button. */
let moving = '';

/** A chat on the server that this browser has not opened yet, or cannot read. @param {{ name: string, error: string | undefined, go: (to: string) => void }} props */
function Unseen({ name, error, go }) {
  const read = async () => {
    if (error) throw new Error(error);
    return await session.files.find(name);
  };
  const open = (/** @type {Event} */ event) => {
    event.preventDefault();
    void attempt(async () => go(`#/chat/${await read()}`));
  };
  const openMenu = () => {
    readForMenu = name;
    void attempt(() => read().catch((thrown) => {
      readForMenu = '';
      throw thrown;
    }));
  };
  return html`<li>
    <a href="#/" class=${error ? 'dim' : ''} title=${error ?? name} onClick=${open}>${name}</a>
    <button type="button" class="more" aria-label=${`Actions for ${name}`} aria-expanded="false" onClick=${openMenu}>⋯</button>
  </li>`;
}

/** @param {Record<string, any>} props */
const Action = ({ label, ...rest }) => html`<${IconButton} label=${label} text=${label} ...${rest} />`;

/** @param {{ one: Conversation, isOpen: boolean, title: string, pinned: boolean }} props */
function Entry({ one, isOpen, title, pinned }) {
  const [open, setOpen] = useState(Boolean(one.saved) && one.saved?.name === readForMenu);
  /** @type {{ current: HTMLButtonElement | null }} */
  const opener = useRef(null);
  useEffect(() => {
    if (!open && moving !== one.id) return;
    readForMenu = moving = '';
    opener.current?.focus();
  }, []);
  /** @param {() => unknown} work */
  const act = (work) => () => {
    setOpen(false);
    // The button that has the focus goes away. A question gives it back when it is answered.
    opener.current?.focus();
    void work();
  };
  /** Without the server its file cannot be changed. */
  const isOnlyHere = () => one.saved && !savedChats.isServed;
  const rename = async () => {
    const name = await asked('Chat name', one.title, 'Rename');
    if (name?.trim() && name.trim() !== one.title) await attempt(() => session.files.rename(one, name.trim()));
  };
  const move = async () => {
    if (!one.saved) return attempt(() => session.files.moveThere(one));
    const keepsFile = Boolean(isOnlyHere());
    const what = keepsFile ? `From now on this browser keeps “${one.title}” by itself. ${fileStays}` : `“${one.title}” will be in this browser only. This deletes it from the chats of recua chat.`;
    if (await confirmed('Move to this browser?', what, 'Move')) await attempt(() => session.files.moveHere(one, keepsFile));
  };
  const remove = async () => {
    const keepsFile = Boolean(isOnlyHere());
    const { etag } = one.saved ?? {};
    if (!keepsFile) await session.files.refresh(one).catch(() => undefined);
    const news = etag && one.saved && one.saved.etag !== etag ? ' It has changed since you opened it here.' : '';
    const from = keepsFile ? `this browser. ${fileStays}` : one.saved ? 'this browser and from the chats of recua chat.' : 'this browser.';
    if (await confirmed('Delete this chat?', `This permanently deletes “${one.title}” from ${from}${news}`, 'Delete')) {
      await attempt(() => session.remove(one.id, keepsFile));
    }
  };
  const pin = () => {
    moving = one.id;
    return session.alter(one, { pinned: !pinned });
  };
  useEscape(open, () => {
    if (opener.current?.parentElement?.contains(document.activeElement)) opener.current.focus();
    setOpen(false);
  });
  return html`<li class=${isOpen ? 'open' : ''}>
    <a href=${`#/chat/${one.id}`} aria-current=${isOpen ? 'page' : undefined} title=${title}>${title}</a>
    <button type="button" class="more" ref=${opener} aria-label=${`Actions for ${title}`} aria-expanded=${open} onClick=${() => setOpen(!open)}>⋯</button>
    ${open && html`<div class="entry-actions" role="group" aria-label=${`Actions for ${title}`}>
      ${!one.saved && html`<${Action} icon="pin" label=${pinned ? 'Unpin' : 'Pin'} onClick=${act(pin)} />`}
      <${Action} icon="edit" label="Rename" onClick=${act(rename)} />
      <${Action} icon="save" label="Export as JSON" onClick=${act(() => attempt(() => exportJson([one], one.title, messagesOf)))} />
      <${Action} icon="file" label="Export as Markdown" onClick=${act(() => attempt(() => exportMarkdown(one, messagesOf)))} />
      ${(savedChats.isServed || one.saved) && html`<${Action} icon=${one.saved ? 'here' : 'computer'} label=${one.saved ? 'Move to this browser' : 'Move to the terminal\'s chats'} disabled=${isOpen && session.busy} onClick=${act(move)} />`}
      <${Action} icon="bin" label="Delete" onClick=${act(remove)} />
    </div>`}
  </li>`;
}
