// The page's frame. The address says which view it shows.
import { html, render, useEffect, useLayoutEffect, useState } from './app/html.js';
import { Dialogs } from './app/dialog.js';
import { Icon, IconButton } from './app/icons.js';
import { useEscape } from './app/keys.js';
import { NoticeLine } from './app/notice.js';
import { inBrowser } from './app/stored.js';
import { ChatView } from './chat/chat-view.js';
import { ConversationList } from './chat/conversation-list.js';
import { session } from './chat/session.js';

const places = [
  { to: '#/', icon: 'chat', name: 'Chat' },
  { to: '#/models', icon: 'models', name: 'Models' },
  { to: '#/now', icon: 'now', name: 'Now' },
  { to: '#/api', icon: 'code', name: 'API' },
];

/** @param {string} hash */
function placeOf(hash) {
  const [, view = '', id = ''] = hash.split('/');
  return view === 'chat' || view === '' ? { view: 'chat', id } : { view, id };
}

/** The chat that was open last. */
const chatAddress = () => (session.messages.size > 0 ? `#/chat/${session.conversation.id}` : '#/');

const themes = ['auto', 'light', 'dark'];

/** @param {string} theme */
function applyTheme(theme) {
  document.documentElement.dataset['theme'] = theme;
  inBrowser.set('theme', theme);
}

function App() {
  const [place, setPlace] = useState(placeOf(location.hash));
  const [menuOpen, setMenuOpen] = useState(false);
  const [theme, setTheme] = useState(inBrowser.get('theme') ?? 'auto');
  useEffect(() => applyTheme(theme), [theme]);
  useLayoutEffect(() => {
    const moved = () => {
      setPlace(placeOf(location.hash));
      setMenuOpen(false);
    };
    addEventListener('hashchange', moved);
    return () => removeEventListener('hashchange', moved);
  }, []);
  /** @param {string} to */
  const go = (to) => {
    location.hash = to;
    // Before the event: a message that is sent meanwhile belongs to the new place.
    setPlace(placeOf(to));
  };
  const startNew = () => {
    session.begin(session.conversation.model);
    go('#/');
    setMenuOpen(false);
  };
  useEscape(menuOpen, () => setMenuOpen(false));
  useLayoutEffect(() => {
    /** @param {KeyboardEvent} event */
    const onKey = (event) => {
      if (!(event.ctrlKey || event.metaKey) || !event.shiftKey || event.key.toLowerCase() !== 'o') return;
      event.preventDefault();
      startNew();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  const { view, id } = place;
  const name = places.find(({ to }) => to === `#/${view}`)?.name ?? 'Chat';
  useEffect(() => { document.title = view === 'chat' ? 'Recua' : `${name} · Recua`; }, [view]);

  return html`
    <a class="skip" href="#content" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); document.getElementById('content')?.focus(); }}>Skip to content</a>
    <div class=${`frame ${menuOpen ? 'menu-open' : ''}`}>
      <header class="phone-bar">
        <${IconButton} icon="menu" label="Menu" aria-expanded=${menuOpen} onClick=${() => setMenuOpen(!menuOpen)} />
        <strong>${view === 'chat' ? 'Recua' : name}</strong>
        <${IconButton} icon="plus" label="New chat" onClick=${startNew} />
      </header>
      <div class="shade" onClick=${() => setMenuOpen(false)}></div>
      <aside class="side" aria-label="Menu">
        <div class="brand"><img src="ui/icon.svg" alt="" width="26" height="26" /><strong>Recua</strong><span class="stretch"></span>
          <${IconButton} icon=${themes.includes(theme) ? theme : 'auto'} label=${`Color theme: ${theme}`} onClick=${() => setTheme(themes[(themes.indexOf(theme) + 1) % themes.length] ?? 'auto')} /></div>
        <nav class="places" aria-label="Views">${places.map(({ to, icon, name: label }) => html`<a key=${to} href=${to === '#/' ? chatAddress() : to} aria-current=${label === name ? 'page' : undefined}><${Icon} name=${icon} />${label}</a>`)}</nav>
        <button type="button" class="new" onClick=${startNew} title="Ctrl+Shift+O"><${Icon} name="plus" />New chat</button>
        <${ConversationList} isShown=${view === 'chat'} go=${go} />
      </aside>
      <main id="content" tabindex="-1">${viewOf(view, id)}</main>
    </div>
    <${Dialogs} />
    <${NoticeLine} />`;
}

/** Views that load on their first visit. @type {Record<string, () => Promise<any>>} */
const later = /** @type {any} */ ({
  __proto__: null,
  models: async () => (await import('./models/models-view.js')).ModelsView,
  now: async () => (await import('./now/now-view.js')).NowView,
  api: async () => (await import('./code/code-view.js')).CodeView,
});

/** @type {Map<string, any>} */
const loaded = new Map();

/** @param {string} view @param {string} id */
function viewOf(view, id) {
  return later[view] ? html`<${Later} key=${view} view=${view} />` : html`<${ChatView} id=${id} />`;
}

/** @param {{ view: string }} props */
function Later({ view }) {
  const [, draw] = useState(0);
  const [error, setError] = useState('');
  useEffect(() => {
    if (loaded.has(view)) return;
    later[view]?.().then((shown) => {
      loaded.set(view, shown);
      draw(1);
    }, () => setError('The server does not respond. Start it again if it has stopped, then reload the page.'));
  }, []);
  const View = loaded.get(view);
  return View ? html`<${View} />` : html`<section class="panel">${error && html`<p class="error" role="alert">${error}</p>`}</section>`;
}

await session.start();
const first = placeOf(location.hash);
// Else the message box would be a new chat's at first.
if (first.view === 'chat' && first.id !== '') await session.open(first.id);
// `?q=` fills the message box. It sends nothing.
const address = new URL(location.href);
const question = address.searchParams.get('q');
if (question !== null) {
  session.drafts.putBack({ conversation: session.conversation.id, content: question });
  address.searchParams.delete('q');
  history.replaceState(undefined, '', address);
}
const into = /** @type {HTMLElement} */ (document.getElementById('app'));
render(html`<${App} />`, into);
