// The settings of the running server. The server does not reveal secrets or file paths.
import { html, useEffect, useState } from '../app/html.js';
import { json, sentenceOf } from '../app/server.js';

/** @typedef {{ name: string, value: string, isDefault: boolean, help: string }} Setting */

export function Settings() {
  const [open, setOpen] = useState(false);
  const [list, setList] = useState(/** @type {Setting[]} */ ([]));
  const [error, setError] = useState('');
  useEffect(() => {
    if (open) {
      json('ui/settings').then(({ data }) => {
        setList(data);
        setError('');
      }, (thrown) => setError(sentenceOf(thrown)));
    }
  }, [open]);
  // Changed settings come first.
  const ordered = [...list].sort((a, b) => Number(a.isDefault) - Number(b.isDefault));
  return html`<details onToggle=${(/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open)}>
    <summary><h2>Server settings</h2></summary>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${list.length > 0 && html`<div class="table wide stacked settings-table" tabindex="0" role="region" aria-label="Server settings"><table>
      <thead><tr><th>Setting</th><th>Value</th><th>Description</th></tr></thead>
      <tbody>${ordered.map(({ name, value, isDefault, help }) => html`<tr key=${name}>
        <th scope="row"><code>${name}</code></th>
        <td class=${isDefault ? 'dim' : ''}>${isDefault ? value : html`<strong>${value}</strong>`}</td>
        <td class="dim">${help}</td>
      </tr>`)}</tbody>
    </table></div>`}
  </details>`;
}
