// Downloads that ended early, of this page or of `recua pull`: a reload or a lost connection ends
// one, too. The bytes that arrived are kept.
import { html, useEffect, useState } from '../app/html.js';
import { confirmed } from '../app/dialog.js';
import { useEmitter } from '../app/emitter.js';
import { IconButton } from '../app/icons.js';
import { models } from '../app/models.js';
import { notify } from '../app/notice.js';
import { json, request, sentenceOf } from '../app/server.js';
import { pulling } from './pulling.js';

/** @typedef {{ name: string, source: string, hashes: string[], percent?: number, pulling: boolean }} Download */

/** All but the one that the search shows. */
export function Unfinished() {
  const { list } = useEmitter(models);
  const { running } = useEmitter(pulling);
  const [all, setAll] = useState(/** @type {Download[]} */ ([]));
  useEffect(() => void json('ui/unfinished').then(({ data }) => setAll(data), () => undefined), [list, running]);
  const others = all.filter(({ hashes }) => !hashes.some((hash) => pulling.shows(hash)));
  if (others.length === 0) return '';
  /** @param {Download} one */
  const remove = async ({ name }) => {
    if (!await confirmed(`Delete what has arrived of ${name}?`, 'The model can be pulled again from the start.', 'Delete')) return;
    await request('api/delete', { method: 'DELETE', body: { model: name } })
      .then(() => notify(`Deleted ${name}`), (thrown) => notify(sentenceOf(thrown)));
    await models.refresh();
  };
  return html`<ul class="unfinished" aria-label="Unfinished downloads">${others.map((one) => html`<li key=${one.source} class="progress">
    <strong>${one.name}</strong>
    <span class="dim stretch">${one.percent === undefined ? 'partly downloaded' : `${one.percent} % downloaded`}${one.pulling ? ', being pulled' : ''}</span>
    ${!one.pulling && html`<button type="button" aria-disabled=${running} aria-label=${`Resume ${one.name}`} onClick=${() => pulling.pull(one.source)}>Resume</button>
      <${IconButton} icon="bin" label=${`Delete ${one.name}`} onClick=${() => remove(one)} />`}
  </li>`)}</ul>`;
}
