// Settings of the open conversation. Empty fields use the server's defaults, which they show.
import { html, useEffect, useState } from '../app/html.js';
import { IconButton } from '../app/icons.js';
import { json } from '../app/server.js';
import { parsed } from './asking.js';
import { session } from './session.js';

/** @type {{ name: string, label: string, step: string, min: string, max?: string, hint: string }[]} */
const numbers = [
  { name: 'temperature', label: 'Temperature', step: '0.05', min: '0', max: '2', hint: 'Randomness of the next token; 0 always takes the most likely one' },
  { name: 'top_p', label: 'Top P', step: '0.01', min: '0', max: '1', hint: 'Samples from the most likely tokens whose probabilities add up to this' },
  { name: 'top_k', label: 'Top K', step: '1', min: '0', hint: 'Samples from this many of the most likely tokens; 0 means all' },
  { name: 'min_p', label: 'Min P', step: '0.01', min: '0', max: '1', hint: 'Drops tokens less likely than this fraction of the most likely one' },
  { name: 'repeat_penalty', label: 'Repeat penalty', step: '0.01', min: '0', hint: 'Above 1 makes tokens that already occurred less likely' },
  { name: 'presence_penalty', label: 'Presence penalty', step: '0.1', min: '-2', max: '2', hint: 'Above 0 makes tokens that already occurred less likely, however often' },
  { name: 'frequency_penalty', label: 'Frequency penalty', step: '0.1', min: '-2', max: '2', hint: 'Above 0 makes tokens less likely each time they occur' },
  { name: 'max_tokens', label: 'Max tokens', step: '1', min: '1', hint: 'The longest answer, in tokens' },
  { name: 'seed', label: 'Seed', step: '1', min: '0', hint: 'The same seed gives the same answer; without one each answer differs' },
];

/** @param {{ model: string, isLoaded: boolean, close: () => void }} props */
export function SettingsPanel({ model, isLoaded, close }) {
  const [defaults, setDefaults] = useState(/** @type {Record<string, any>} */ ({}));
  useEffect(() => {
    setDefaults({});
    if (!isLoaded) return;
    json(`props?model=${encodeURIComponent(model)}`).then((props) => setDefaults(props.default_generation_settings.params), () => undefined);
  }, [model, isLoaded]);
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    if (event.key !== 'Escape') return;
    // What is typed counts once the field loses the focus.
    /** @type {HTMLElement} */ (event.target).blur();
    close();
  };

  return html`<aside class="settings" aria-label="Chat settings" onKeyDown=${onKey}>
    <header class="row"><h2>Chat settings</h2><${IconButton} icon="close" label="Close settings" onClick=${close} /></header>
    <label>System prompt
      <${Field} name="system" tag="textarea" rows="4" placeholder="None" />
    </label>
    <label>Thinking
      <select value=${session.conversation.settings['thinking'] ?? ''} onChange=${(/** @type {Event} */ event) => session.set('thinking', valueOf(event))}>
        <option value="">Model default</option><option value="off">Off</option>
      </select>
    </label>
    <div class="grid">${numbers.map(({ name, label, hint, ...range }) => html`<label key=${name} title=${hint}>${label}
      <${Field} name=${name} tag="input" type="number" inputmode="decimal" ...${range} placeholder=${shown(defaults, name)} />
    </label>`)}</div>
    <${JsonField} name="schema" label="Answer as JSON with this schema" example='{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}' isRight=${(/** @type {unknown} */ value) => typeof value === 'object' && value !== null} />
    <${JsonField} name="tools" label="Tools (you type the results)" example='[{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]' isRight=${Array.isArray} />
    <p class="dim">Empty fields use the server's defaults.</p>
  </aside>`;
}

/** @param {Event} event */
const valueOf = (event) => /** @type {HTMLInputElement} */ (event.currentTarget).value;

/**
 * A field for a setting. What is typed stays in the field until it loses the focus, however often
 * the panel is drawn meanwhile.
 * @param {{ name: string, tag: 'input' | 'textarea', [attribute: string]: unknown }} props
 */
function Field({ name, tag, ...attributes }) {
  const [typed, setTyped] = useState(/** @type {string | undefined} */ (undefined));
  /** @param {Event} event */
  const done = (event) => {
    const text = valueOf(event);
    setTyped(undefined);
    session.set(name, text !== '' && attributes['type'] === 'number' ? Number(text) : text);
  };
  return html`<${tag} ...${attributes} value=${typed ?? session.conversation.settings[name] ?? ''}
    onInput=${(/** @type {Event} */ event) => setTyped(valueOf(event))} onChange=${done} />`;
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
    <${Field} name=${name} tag="textarea" rows="6" class="mono" spellcheck="false" aria-label=${label} aria-invalid=${wrong} placeholder=${example} />
    ${wrong && html`<p class="error" role="alert">This is not the JSON expected here. Correct it or clear the field.</p>`}
  </details>`;
}
