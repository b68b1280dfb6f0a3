// A form that sends one request to a route and shows the server's response.
import { html, useEffect, useState } from '../app/html.js';
import { confirmed } from '../app/dialog.js';
import { models } from '../app/models.js';
import { addressOf } from '../app/server.js';
import { inTab } from '../app/stored.js';
import { bytes, duration } from '../app/units.js';
import { indented } from '../text/json-text.js';
import { followed } from './schema.js';

/** Characters of a response that are shown. */
const mostShown = 200_000;

/** @param {import('./reference.js').Route} route @param {any} document */
function exampleOf({ body }, document) {
  if (!body) return '';
  const example = body.example ?? {};
  const known = models.list.find(({ status }) => status.value === 'loaded')?.id;
  // The model of the example is not on this server, and not every server has a default model.
  const takesModel = 'model' in example || followed(body.schema, document).properties?.model !== undefined;
  return JSON.stringify(takesModel && known !== undefined ? { ...example, model: known } : example, undefined, 2);
}

/** @param {{ route: import('./reference.js').Route, document: any }} props */
export function TryIt({ route, document }) {
  const { method, path, parameters, body, replies } = route;
  const [text, setText] = useState(() => exampleOf(route, document));
  const [values, setValues] = useState(/** @returns {Record<string, string>} */ () => Object.fromEntries(parameters.filter(({ example }) => example !== undefined).map(({ name, example = '' }) => [name, example])));
  const [answer, setAnswer] = useState(/** @type {{ head: string, text: string, failed: boolean } | undefined} */ (undefined));
  const [stop, setStop] = useState(/** @type {AbortController | undefined} */ (undefined));
  // A stream may have no end, and a browser makes few connections.
  useEffect(() => () => stop?.abort(), [stop]);
  const isJson = body?.type === 'application/json';
  if (body && !isJson) return html`<p class="dim">This route takes ${body.type}, which this form cannot send. Use curl.</p>`;
  if ('101' in replies) return html`<p class="dim">This route opens a WebSocket, which this form cannot do.</p>`;
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    // Enter sends a form without a button, too.
    if (stop) return;
    if (isJson) {
      try {
        JSON.parse(text);
      } catch (thrown) {
        setAnswer({ head: 'Not sent', text: `The body is not JSON: ${/** @type {Error} */ (thrown).message}`, failed: true });
        return;
      }
    }
    if (method === 'delete' && !await confirmed(`Send DELETE ${path}?`, 'This cannot be undone.', 'Send')) return;
    const query = new URLSearchParams(parameters.filter((one) => one.in === 'query' && values[one.name]).map(({ name }) => [name, values[name] ?? '']));
    const filled = path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(values[name] ?? ''));
    const headers = Object.fromEntries(parameters.filter((one) => one.in === 'header').map(({ name }) => [name, values[name] ?? '']));
    const controller = new AbortController();
    setStop(controller);
    await send(method, `${filled}${query.size > 0 ? `?${query}` : ''}`, isJson ? text : undefined, headers, controller.signal, setAnswer);
    setStop(undefined);
  };
  return html`<form class="try" aria-label=${`Try ${method.toUpperCase()} ${path}`} onSubmit=${submit}>
    <h4>Try it</h4>
    ${parameters.map(({ name, required }) => html`<label key=${name}><span><code>${name}</code>${required ? ' (required)' : ''}</span>
      <input value=${values[name] ?? ''} required=${required} autocomplete="off" onInput=${(/** @type {Event} */ event) => setValues({ ...values, [name]: /** @type {HTMLInputElement} */ (event.currentTarget).value })} /></label>`)}
    ${isJson && html`<label><span>Body</span><textarea class="mono" spellcheck="false" rows=${Math.min(14, text.split('\n').length + 1)} value=${text} onInput=${(/** @type {Event} */ event) => setText(/** @type {HTMLTextAreaElement} */ (event.currentTarget).value)}></textarea></label>`}
    <div class="row">${stop
      ? html`<button type="button" onClick=${() => stop.abort()}>Stop</button>`
      : html`<button type="submit" class="primary">Send</button>`}
      ${answer && html`<span class=${answer.failed ? 'warn' : 'dim'} role="status">${answer.head}</span>`}</div>
    ${answer && html`<pre tabindex="0" role="region" aria-label="Server response">${answer.text.slice(0, mostShown)}</pre>`}
  </form>`;
}

/**
 * @param {string} method @param {string} path @param {string | undefined} body
 * @param {Record<string, string>} more headers @param {AbortSignal} signal
 * @param {(answer: { head: string, text: string, failed: boolean }) => void} show
 */
async function send(method, path, body, more, signal, show) {
  const startMs = performance.now();
  const key = inTab.get('apiKey');
  let head = '';
  let text = '';
  let failed = false;
  try {
    const response = await fetch(addressOf(path), {
      method: method.toUpperCase(), signal, ...(body === undefined ? {} : { body }),
      headers: { ...more, ...(key === null ? {} : { Authorization: `Bearer ${key}` }), ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
    });
    failed = !response.ok;
    head = `${response.status} ${response.statusText}`;
    const isJson = (response.headers.get('content-type') ?? '').startsWith('application/json');
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let shownMs = 0; reader;) {
      const { value, done } = await reader.read();
      if (done) break;
      text += value;
      // Show streams as they arrive.
      if (!isJson && performance.now() - shownMs > 100) {
        shownMs = performance.now();
        show({ head, text, failed });
      }
      if (text.length > 20 * mostShown) throw new Error('The response is too long to show here.');
    }
    head += `, ${bytes(new Blob([text]).size)} in ${duration(performance.now() - startMs)}`;
    if (isJson) text = indented(text);
  } catch (thrown) {
    failed = !signal.aborted;
    head = signal.aborted ? `${head}, stopped` : `${head} ${/** @type {Error} */ (thrown).message}`;
  }
  show({ head, text: text || '(no body)', failed });
}
