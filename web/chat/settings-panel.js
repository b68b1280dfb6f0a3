// What this conversation asks of the model beyond its messages. Where nothing is set the server's
// own value holds, which each field shows.
import { html, useEffect, useState } from '../app/html.js';
import { IconButton } from '../app/icons.js';
import { json } from '../app/server.js';
import { parsed } from './asking.js';
import { session } from './session.js';

/** @type {{ name: string, label: string, step: string, min: string, max?: string, hint: string }[]} */
const numbers = [
  { name: 'temperature', label: 'Temperature', step: '0.05', min: '0', max: '2', hint: 'How freely the next word is drawn; 0 takes the likeliest' },
  { name: 'top_p', label: 'Top P', step: '0.01', min: '0', max: '1', hint: 'Draws among the likeliest that add up to this' },
  { name: 'top_k', label: 'Top K', step: '1', min: '0', hint: 'Draws among so many; 0 is all' },
  { name: 'min_p', label: 'Min P', step: '0.01', min: '0', max: '1', hint: 'Leaves out what is less likely than this share of the likeliest' },
  { name: 'repeat_penalty', label: 'Repeat penalty', step: '0.01', min: '0', hint: 'Above 1 makes what was said less likely' },
  { name: 'presence_penalty', label: 'Presence penalty', step: '0.1', min: '-2', max: '2', hint: 'Above 0 makes what was said once less likely' },
  { name: 'frequency_penalty', label: 'Frequency penalty', step: '0.1', min: '-2', max: '2', hint: 'Above 0 makes what was said often less likely' },
  { name: 'max_tokens', label: 'Longest answer', step: '1', min: '1', hint: 'In tokens' },
  { name: 'seed', label: 'Seed', step: '1', min: '0', hint: 'The same seed gives the same answer; none is another each time' },
];

/** @param {{ model: string, isLoaded: boolean, close: () => void }} props */
export function SettingsPanel({ model, isLoaded, close }) {
  const { settings } = session.conversation;
  const [defaults, setDefaults] = useState(/** @type {Record<string, any>} */ ({}));
  useEffect(() => {
    setDefaults({});
    if (!isLoaded) return;
    json(`props?model=${encodeURIComponent(model)}`).then((props) => setDefaults(props.default_generation_settings.params), () => undefined);
  }, [model, isLoaded]);
  /** @param {Event} event */
  const valueOf = (event) => /** @type {HTMLInputElement} */ (event.currentTarget).value;

  return html`<aside class="settings" aria-label="Settings of this chat" onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === 'Escape') close(); }}>
    <header class="row"><h2>This chat</h2><${IconButton} icon="close" label="Close the settings" onClick=${close} /></header>
    <label>System prompt
      <textarea rows="4" value=${settings['system'] ?? ''} placeholder="None" onChange=${(/** @type {Event} */ event) => session.set('system', valueOf(event))}></textarea>
    </label>
    <label>Thinking
      <select value=${settings['thinking'] ?? ''} onChange=${(/** @type {Event} */ event) => session.set('thinking', valueOf(event))}>
        <option value="">As the model does</option><option value="off">Off</option>
      </select>
    </label>
    <div class="grid">${numbers.map(({ name, label, hint, ...range }) => html`<label key=${name} title=${hint}>${label}
      <input type="number" inputmode="decimal" ...${range} value=${settings[name] ?? ''} placeholder=${shown(defaults, name)}
        onChange=${(/** @type {Event} */ event) => session.set(name, valueOf(event) === '' ? undefined : Number(valueOf(event)))} />
    </label>`)}</div>
    <${JsonField} name="schema" label="Answer as JSON of this schema" example='{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}' isRight=${(/** @type {unknown} */ value) => typeof value === 'object' && value !== null} />
    <${JsonField} name="tools" label="Tools, whose results you give by hand" example='[{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]' isRight=${Array.isArray} />
    <p class="dim">Empty fields hold what the server does by itself.</p>
  </aside>`;
}

/** @param {Record<string, any>} defaults @param {string} name */
function shown(defaults, name) {
  if (name === 'seed') return 'random';
  const value = defaults[name];
  return value === undefined ? 'default' : String(Math.round(value * 1_000) / 1_000);
}

/** @param {{ name: string, label: string, example: string, isRight: (value: unknown) => boolean }} props */
function JsonField({ name, label, example, isRight }) {
  const text = session.conversation.settings[name] ?? '';
  const wrong = text.trim() !== '' && !isRight(parsed(text));
  return html`<details class="json-field" open=${text !== ''}><summary>${label}</summary>
    <textarea rows="6" class="mono" spellcheck="false" aria-label=${label} aria-invalid=${wrong} value=${text} placeholder=${example}
      onChange=${(/** @type {Event} */ event) => session.set(name, /** @type {HTMLTextAreaElement} */ (event.currentTarget).value)}></textarea>
    ${wrong && html`<p class="error" role="alert">This is not the JSON that is expected here; it is left out.</p>`}
  </details>`;
}
