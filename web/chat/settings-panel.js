// Settings of the open conversation. Empty fields use the server's defaults, which they show.
import { html, useEffect, useState } from '../app/html.js';
import { IconButton } from '../app/icons.js';
import { useEscape } from '../app/keys.js';
import { json } from '../app/server.js';
import { wrongJson, numbers, wrongNumber } from './asking.js';
import { session } from './session.js';

/** @param {{ model: string, isLoaded: boolean, close: () => void }} props */
export function SettingsPanel({ model, isLoaded, close }) {
  const [defaults, setDefaults] = useState(/** @type {Record<string, any>} */ ({}));
  useEffect(() => {
    setDefaults({});
    if (!isLoaded) return;
    json(`props?model=${encodeURIComponent(model)}`).then((props) => setDefaults(props.default_generation_settings.params), () => undefined);
  }, [model, isLoaded]);
  useEscape(true, close);

  return html`<aside class="settings" aria-label="Chat settings" tabindex="-1">
    <header class="row"><h2>Chat settings</h2><${IconButton} icon="close" label="Close settings" onClick=${close} /></header>
    <label>System prompt
      <${Field} name="system" tag="textarea" rows="4" placeholder="None" />
    </label>
    <label>Thinking
      <select value=${session.conversation.settings['thinking'] ?? ''} onChange=${(/** @type {Event} */ event) => set('thinking', valueOf(event))}>
        <option value="">Model default</option><option value="off">Off</option>
      </select>
    </label>
    <p class="dim">Empty fields use the server's defaults.</p>
    <div class="grid">${numbers.map((number) => html`<${NumberField} key=${number.name} number=${number} placeholder=${shown(defaults, number.name)} />`)}</div>
    <${JsonField} name="schema" label="Answer as JSON with this schema" example='{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}' />
    <${JsonField} name="tools" label="Tools (you type the results)" example='[{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]' />
  </aside>`;
}

/** @param {string} name @param {unknown} value '': the server's default */
function set(name, value) {
  const settings = { ...session.conversation.settings };
  if (value === '') delete settings[name];
  else settings[name] = value;
  session.change({ settings });
}

/** @param {Event} event */
const valueOf = (event) => /** @type {HTMLInputElement} */ (event.currentTarget).value;

/**
 * A field for a setting, which is set while it is typed. The field shows what is typed until it
 * loses the focus, even if that is not yet a number.
 * @param {{ name: string, tag: 'input' | 'textarea', [attribute: string]: unknown }} props
 */
function Field({ name, tag, ...attributes }) {
  const [typed, setTyped] = useState(/** @type {string | undefined} */ (undefined));
  /** @param {Event} event */
  const type = (event) => {
    const text = valueOf(event);
    setTyped(text);
    set(name, text !== '' && attributes['type'] === 'number' ? Number(text) : text);
  };
  return html`<${tag} ...${attributes} value=${typed ?? session.conversation.settings[name] ?? ''}
    onInput=${type} onBlur=${() => setTyped(undefined)} />`;
}

/** @param {Record<string, any>} defaults @param {string} name */
function shown(defaults, name) {
  if (name === 'seed') return 'random';
  const value = defaults[name];
  return value === undefined ? 'default' : String(Math.round(value * 1_000) / 1_000);
}

/** @param {{ number: import('./asking.js').NumberSetting, placeholder: string }} props */
function NumberField({ number, placeholder }) {
  const { name, label, hint, ...range } = number;
  const wrong = wrongNumber(number, session.conversation.settings[name]);
  return html`<div>
    <label title=${hint}>${label}
      <${Field} name=${name} tag="input" type="number" inputmode="decimal" ...${range} placeholder=${placeholder} aria-invalid=${wrong !== ''} aria-describedby=${wrong ? `wrong-${name}` : `hint-${name}`} />
    </label>
    <p class="hint" id=${`hint-${name}`}>${hint}</p>
    ${wrong && html`<p class="error" role="alert" id=${`wrong-${name}`}>It ${wrong}.</p>`}
  </div>`;
}

/** @param {{ name: 'schema' | 'tools', label: string, example: string }} props */
function JsonField({ name, label, example }) {
  const text = session.conversation.settings[name] ?? '';
  const wrong = wrongJson(name, text);
  // An open field that is cleared stays open.
  const [open] = useState(text !== '');
  return html`<details class="json-field" open=${open}><summary>${label}</summary>
    <${Field} name=${name} tag="textarea" rows="6" class="mono" spellcheck="false" aria-label=${label} aria-invalid=${wrong !== ''} placeholder=${example} />
    ${wrong && html`<p class="error" role="alert">${wrong} Correct it or clear the field.</p>`}
  </details>`;
}
