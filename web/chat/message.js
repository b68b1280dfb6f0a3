// One message: text, thoughts, tool calls and actions. Markdown is parsed only when a message comes
// near the window, so that a long conversation opens at once. Until then its source is there, for
// the browser's search and for screen readers.
import { html, memo, useEffect, useLayoutEffect, useRef, useState } from '../app/html.js';
import { IconButton, Icon } from '../app/icons.js';
import { closes } from '../app/keys.js';
import { copyText } from '../app/notice.js';
import { beforePrint, isPrinting } from '../app/printing.js';
import { count, duration, characters, speed } from '../app/units.js';
import { GrowingText } from '../text/growing-text.js';
import { indented } from '../text/json-text.js';
import { parsed } from './asking.js';
import { draftOf } from './drafts.js';
import { session } from './session.js';
import { ToolCalls } from './tool-calls.js';

/** @typedef {import('./tree.js').Message} Message */
/** @typedef {import('./tree.js').Attached} Attached */

/** Calls back once the element comes near the window. */
const nearWindow = (() => {
  /** @type {IntersectionObserver | undefined} */
  let observer;
  /** @type {WeakMap<Element, () => void>} */
  const waiting = new WeakMap();
  return (/** @type {Element} */ at, /** @type {() => void} */ came) => {
    observer ??= new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (!isIntersecting) continue;
        observer?.unobserve(target);
        waiting.get(target)?.();
      }
    }, { rootMargin: '1200px 0px' });
    waiting.set(at, came);
    observer.observe(at);
    return () => observer?.unobserve(at);
  };
})();

/** Characters. The browser would take long to lay out megabytes of text that nobody sees. */
const mostSource = 20_000;

/**
 * Text of a message, which may still grow. Preact makes the element; GrowingText fills it.
 * @param {{ message: Message, field: 'content' | 'reasoning', live: boolean, label?: string }} props
 */
function Prose({ message, field, live }) {
  /** @type {{ current: HTMLElement | null }} */
  const at = useRef(null);
  /** @type {{ current: GrowingText | undefined }} */
  const text = useRef(undefined);
  const [near, setNear] = useState(live || isPrinting());
  useEffect(() => {
    if (near || !at.current) return undefined;
    const come = () => setNear(true);
    const ends = [nearWindow(at.current, come), beforePrint(come)];
    return () => ends.forEach((end) => end());
  }, [near]);
  useLayoutEffect(() => {
    if (!near || !at.current) return undefined;
    const shown = (text.current ??= new GrowingText(at.current));
    // Another tab may be writing it.
    shown.show(message[field] ?? '', !live && Boolean(message.finish ?? message.error));
    return live ? session.running.watch(message.id, () => shown.show(message[field] ?? '', false)) : undefined;
  });
  useEffect(() => () => text.current?.close(), []);
  return html`<div class=${`prose ${near ? '' : 'later'}`} ref=${at}>${near ? undefined : (message[field] ?? '').slice(0, mostSource)}</div>`;
}

/** What the model thought, folded until the user opens it. @param {{ message: Message, live: boolean }} props */
function Thoughts({ message, live }) {
  const thinking = live && message.content === '' && !message.toolCalls?.length;
  const [open, setOpen] = useState(false);
  return html`<details class="thoughts" open=${open} onToggle=${(/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open)}>
    <summary>${thinking ? html`<span class="pulse">Thinking…</span>` : 'Thoughts'}${message.stats?.reasoningTokens ? html` <span class="dim">${count(message.stats.reasoningTokens)} tokens</span>` : ''}</summary>
    ${open && html`<${Prose} message=${message} field="reasoning" live=${live} />`}
  </details>`;
}

/** An answer to a request with a JSON schema. @param {{ text: string }} props */
function JsonView({ text }) {
  const value = parsed(text);
  return html`<div class="json-view">
    <p class=${value === undefined ? 'tag bad' : 'tag good'}>${value === undefined ? 'Incomplete JSON' : 'Valid JSON'}</p>
    <pre tabindex="0" role="region" aria-label="JSON">${indented(text)}</pre>
  </div>`;
}

/** @param {{ message: Message }} props */
function Numbers({ message: { stats, model, finish } }) {
  return html`<p class="numbers">
    ${model && html`<span>${model}</span>`}
    ${stats && html`<span>${count(stats.tokens)} ${stats.tokens === 1 ? 'token' : 'tokens'}</span>${stats.perSecond > 0 && html`<span>${speed(stats.perSecond)}</span>`}
      ${stats.firstMs > 0 && html`<span>${duration(stats.firstMs)} to first token</span>`}
      <span title="Tokens in the prompt, and how many of them came from the cache">prompt ${count(stats.promptTokens)}, ${count(stats.cachedTokens)} cached</span>`}
    ${finish === 'length' && html`<span class="warn">reached the token limit</span>`}
    ${finish === 'stopped' && html`<span class="warn">stopped</span>`}
  </p>`;
}

/** Switches between versions of a message. @param {{ message: Message }} props */
function Branches({ message }) {
  const all = session.siblings(message);
  // Two answers side by side need no arrows between them.
  if (all.length < 2 || (all.length === session.pair.length && session.pair.includes(message))) return undefined;
  const at = all.indexOf(message);
  /** @param {number} to */
  const go = (to) => session.choose(/** @type {Message} */ (all[to]));
  return html`<span class="branches">
    <${IconButton} icon="left" label="Previous version" disabled=${at === 0} onClick=${() => go(at - 1)} />
    <span aria-label=${`${at + 1} of ${all.length}`}>${at + 1}/${all.length}</span>
    <${IconButton} icon="right" label="Next version" disabled=${at === all.length - 1} onClick=${() => go(at + 1)} />
  </span>`;
}

/** Opens and closes the editor of a message. Its text is a draft. @param {Message} message */
function useEditor(message) {
  const [, draw] = useState(0);
  const key = draftOf(message);
  const { drafts } = session;
  /** @param {() => void} change */
  const changing = (change) => () => {
    change();
    draw((count) => count + 1);
  };
  return {
    text: drafts.texts.get(key),
    files: drafts.files.get(key) ?? [],
    start: changing(() => {
      drafts.texts.set(key, message.content);
      drafts.files.set(key, message.attached ?? []);
    }),
    write: (/** @type {string} */ text) => void drafts.texts.set(key, text),
    leaveOut: (/** @type {Attached} */ file) => changing(() => {
      drafts.files.set(key, (drafts.files.get(key) ?? []).filter((one) => one !== file));
    })(),
    done: changing(() => drafts.drop(key)),
  };
}

/**
 * Stays open if `save` returns false.
 * @param {{ draft: ReturnType<typeof useEditor>, save: (text: string) => boolean, label: string }} props
 */
function Editor({ draft, save, label }) {
  const { text = '' } = draft;
  /** @type {{ current: HTMLTextAreaElement | null }} */
  const box = useRef(null);
  useLayoutEffect(() => {
    box.current?.focus();
    box.current?.setSelectionRange(text.length, text.length);
  }, []);
  const submit = () => {
    if (!session.busy && save(box.current?.value ?? '')) draft.done();
  };
  return html`<div class="editor">
    <textarea ref=${box} aria-label="Text" defaultValue=${text} rows=${Math.min(20, text.split('\n').length + 1)}
      onInput=${(/** @type {Event} */ event) => draft.write(/** @type {HTMLTextAreaElement} */ (event.currentTarget).value)}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
        if (closes(event)) draft.done();
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit();
      }}></textarea>
    <div class="row end"><span class="dim keys">Ctrl+Enter</span><button type="button" onClick=${draft.done}>Cancel</button><button type="button" class="primary" disabled=${session.busy} onClick=${submit}>${label}</button></div>
  </div>`;
}

/** @param {{ message: Message }} props */
const GetAnswer = ({ message }) => html`<div class="row"><button type="button" onClick=${() => session.ask(message)}>Get an answer</button></div>`;

/** @param {{ message: Message, canAsk: boolean }} props `canAsk`: the message is the last one and has no answer */
function UserMessage({ message, canAsk }) {
  const draft = useEditor(message);
  const editing = draft.text !== undefined;
  const { content, attached = [] } = message;
  const { files } = draft;
  /** @param {string} text */
  const send = (text) => (text.trim() !== '' || files.length > 0) && session.say(text, files, message);
  return html`<article class="message user" aria-label="You">
    ${editing && files.length > 0 && html`<ul class="files" aria-label="Attached files">${files.map((file) => html`<li key=${file.name}>
      <${Icon} name="file" /><span>${file.name}</span>
      <${IconButton} icon="close" label=${`Remove ${file.name}`} onClick=${() => draft.leaveOut(file)} />
    </li>`)}</ul>`}
    ${!editing && attached.map(({ name, text }) => html`<details class="file"><summary><${Icon} name="file" />${name} <span class="dim">${characters(text)}</span></summary><pre tabindex="0">${text.slice(0, 20_000)}</pre></details>`)}
    ${editing
      ? html`<${Editor} draft=${draft} label="Send" save=${send} />`
      : content !== '' && html`<div class="said" dir="auto">${content}</div>`}
    ${canAsk && !editing && html`<${GetAnswer} message=${message} />`}
    ${!editing && html`<div class="actions">
      <${Branches} message=${message} />
      <${IconButton} icon="copy" label="Copy message" onClick=${() => copyText(content)} />
      <${IconButton} icon="edit" label="Edit and resend" disabled=${session.busy} onClick=${draft.start} />
    </div>`}
  </article>`;
}

/** @param {{ message: Message, live: boolean, isLast: boolean, results: Message[], takesResults: boolean }} props */
function Answer({ message, live, isLast, results, takesResults }) {
  const draft = useEditor(message);
  const editing = draft.text !== undefined;
  const { content, reasoning, toolCalls, error, model = '' } = message;
  const isJson = !live && message.json && content !== '';
  const hasErrorButton = error && isLast && !session.busy;
  const silent = live && content === '' && !reasoning && !toolCalls?.length;
  const [, draw] = useState(0);
  // Redraws when a new part appears, such as thoughts or a tool call.
  useLayoutEffect(() => {
    if (!live) return undefined;
    return session.running.watch(message.id, () => draw(shapeOf(message) + (session.running.get(message.id)?.connecting ? 0.5 : 0)));
  }, [live, message]);
  return html`<article class="message answer" aria-label=${model ? `Answer from ${model}` : 'Answer'} aria-busy=${live}>
    ${silent && html`<p class="pulse waiting">Waiting for the model…</p>`}
    ${reasoning && html`<${Thoughts} message=${message} live=${live} />`}
    ${editing
      ? html`<${Editor} draft=${draft} label="Save" save=${(/** @type {string} */ text) => session.rewrite(message, text)} />`
      : isJson ? html`<${JsonView} text=${content} />` : html`<${Prose} message=${message} field="content" live=${live} />`}
    ${toolCalls?.length ? html`<${ToolCalls} message=${message} live=${live} results=${results} takesResults=${takesResults} />` : ''}
    ${live && session.running.get(message.id)?.connecting && html`<p class="pulse waiting" role="status">Reconnecting…</p>`}
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${hasErrorButton && html`<div class="row">${content && !toolCalls?.length
      ? html`<button type="button" onClick=${() => session.goOn(message)}>Continue</button>`
      : html`<button type="button" onClick=${() => session.retry(message)}>Try again</button>`}</div>`}
    ${live ? message.pair && html`<p class="numbers">${model}</p>` : html`<${Numbers} message=${message} />`}
    ${!live && !editing && html`<div class="actions">
      <${Branches} message=${message} />
      ${content !== '' && html`<${IconButton} icon="copy" label="Copy answer" onClick=${() => copyText(content)} />
      <${IconButton} icon="edit" label="Edit answer" disabled=${session.busy} onClick=${draft.start} />`}
      ${!(hasErrorButton && content === '') && html`<${IconButton} icon="retry" label="Regenerate" disabled=${session.busy} onClick=${() => session.retry(message)} />`}
      ${isLast && !hasErrorButton && !toolCalls?.length && html`<${IconButton} icon="goOn" label="Continue this answer" disabled=${session.busy} onClick=${() => session.goOn(message)} />`}
    </div>`}
  </article>`;
}

/** A number that changes when the answer gets a new part. @param {Message} message */
function shapeOf({ content, reasoning, toolCalls }) {
  const called = (toolCalls ?? []).reduce((sum, call) => sum + 8 + call.arguments.length, 0);
  return (content ? 1 : 0) + (reasoning ? 2 : 0) + 4 * called;
}

/**
 * `version` changes with state outside `message`, so that the memo redraws.
 * @typedef {{
 *   message: Message, live: boolean, isLast: boolean, canAsk: boolean, takesResults: boolean,
 *   results: Message[], version: string,
 * }} MessageProps
 */
export const MessageView = memo((/** @type {MessageProps} */ { message, ...rest }) => {
  // A result is shown with its call.
  if (message.role === 'tool') return rest.canAsk && html`<${GetAnswer} message=${message} />`;
  if (message.role === 'user') return html`<${UserMessage} message=${message} canAsk=${rest.canAsk} />`;
  return html`<${Answer} message=${message} ...${rest} />`;
});
