// The settings that the server runs with. What is secret, and where files lie, is not told.
import { html, useEffect, useState } from '../app/html.js';
import { json, sentenceOf } from '../app/server.js';

/** @typedef {{ name: string, value: string, isDefault: boolean, help: string }} Setting */

export function Settings() {
  const [open, setOpen] = useState(false);
  const [list, setList] = useState(/** @type {Setting[]} */ ([]));
  const [error, setError] = useState('');
  useEffect(() => {
    if (open) json('ui/settings').then(({ data }) => setList(data), (thrown) => setError(sentenceOf(thrown)));
  }, [open]);
  // What was set comes first.
  const ordered = [...list].sort((a, b) => Number(a.isDefault) - Number(b.isDefault));
  return html`<details onToggle=${(/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open)}>
    <summary><h2>Settings of the server</h2></summary>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${list.length > 0 && html`<div class="table wide settings-table" tabindex="0" role="region" aria-label="Settings of the server"><table>
      <thead><tr><th>Setting</th><th>Value</th><th>What it does</th></tr></thead>
      <tbody>${ordered.map(({ name, value, isDefault, help }) => html`<tr key=${name}>
        <th scope="row"><code>${name}</code></th>
        <td class=${isDefault ? 'dim' : ''}>${isDefault ? value : html`<strong>${value}</strong>`}</td>
        <td class="dim">${help}</td>
      </tr>`)}</tbody>
    </table></div>`}
  </details>`;
}
