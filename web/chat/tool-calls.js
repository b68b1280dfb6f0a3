// The tool calls of an answer. The page runs no tools: the user types each result.
import { html, useRef } from '../app/html.js';
import { indented } from '../text/json-text.js';
import { draftOf } from './drafts.js';
import { session } from './session.js';

/** @typedef {import('./tree.js').Message} Message */

/** @param {{ message: Message, live: boolean, results: Message[], takesResults: boolean }} props */
export function ToolCalls({ message, live, results, takesResults }) {
  return html`<div class="calls">${(message.toolCalls ?? []).map((call) => {
    const result = results.find(({ callId }) => callId === call.id);
    return html`<section class="call" aria-label=${`Call to ${call.name}`} key=${call.id}>
      <h3><span class="tag">call</span> <code>${call.name}</code></h3>
      <pre tabindex="0">${live ? call.arguments : indented(call.arguments)}</pre>
      ${result ? html`<p class="dim">Result</p><pre tabindex="0">${result.content}</pre>` : !live && takesResults && html`<${Result} message=${message} callId=${call.id} name=${call.name} />`}
    </section>`;
  })}</div>`;
}

/** @param {{ message: Message, callId: string, name: string }} props */
function Result({ message, callId, name }) {
  /** @type {{ current: HTMLTextAreaElement | null }} */
  const box = useRef(null);
  const key = draftOf(message, callId);
  const submit = () => {
    if (!session.busy && session.giveResult(message, callId, box.current?.value ?? '')) session.drafts.drop(key);
  };
  return html`<div class="result">
    <textarea ref=${box} rows="2" defaultValue=${session.drafts.texts.get(key) ?? ''} onInput=${(/** @type {Event} */ event) => session.drafts.texts.set(key, /** @type {HTMLTextAreaElement} */ (event.currentTarget).value)} aria-label=${`Result of ${name}`} placeholder="What the tool returns (Ctrl+Enter submits it)"
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit(); }}></textarea>
    <button type="button" disabled=${session.busy} onClick=${submit}>Submit result</button>
  </div>`;
}
