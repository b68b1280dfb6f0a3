// Hub search: finds repositories, and lists the models in one with their sizes and whether they fit
// this machine.
import { html, useEffect, useRef, useState } from '../app/html.js';
import { useEmitter } from '../app/emitter.js';
import { askAgain, json, sentenceOf } from '../app/server.js';
import { bytes, count, percent } from '../app/units.js';
import { pulling } from './pulling.js';

/** Matches the name of a repository, as opposed to search words. */
const repositoryName = /^(?:https?:\/\/\S+\/|hf\.co\/)?[\w.-]+\/[\w.-]+$/;

/** Matches the name of a model, which is pulled at once. @param {string} words */
const namesModel = (words) => words.includes(':') && !repositoryName.test(words);

/**
 * @typedef {{ name: string, downloads: number, likes: number, gated: boolean }} Repository
 * @typedef {{ name: string, file: string, quantization: string, sizeBytes: number, storedBytes: number,
 *   memoryBytes: number, fits: boolean, recommended: boolean }} Offer
 */

/**
 * The result of a request to the hub. A newer request replaces an older one.
 * @template T
 * @param {string} address
 * @returns {{ data: T[] | undefined, error: string, asking: boolean }}
 */
function useHub(address) {
  const [state, setState] = useState(/** @type {{ address: string, data?: T[], error?: string }} */ ({ address: '' }));
  useEffect(() => {
    const stop = new AbortController();
    json(address, { signal: stop.signal }).then(({ data }) => setState({ address, data }), (thrown) => {
      if (!stop.signal.aborted) setState({ address, error: sentenceOf(thrown) });
    });
    return () => stop.abort();
  }, [address]);
  const isOf = state.address === address;
  return { data: isOf ? state.data : undefined, error: isOf ? state.error ?? '' : '', asking: !isOf };
}

export function HubSearch() {
  const { name, status, error, running, share } = useEmitter(pulling);
  const [words, setWords] = useState('');
  const [typed, setTyped] = useState('');
  const [opened, setOpened] = useState('');
  /** Each search asks anew, also for the same words: the hub may have been away. */
  const [searches, setSearches] = useState(0);
  /** @type {{ current: HTMLInputElement | null }} */
  const field = useRef(null);
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    const wanted = field.current?.value.trim() ?? '';
    const isRepository = repositoryName.test(wanted);
    askAgain();
    setSearches(searches + 1);
    setOpened(isRepository ? wanted : '');
    setWords(isRepository || namesModel(wanted) ? '' : wanted);
    if (namesModel(wanted)) void pulling.pull(wanted);
  };
  return html`<form class="pull" role="search" onSubmit=${submit}>
      <label class="stretch"><span class="dim">Get a model from the hub</span><input ref=${field} type="search" placeholder="Words or owner/repo:Q4_K_M" autocomplete="off" spellcheck="false" onInput=${(/** @type {Event} */ event) => setTyped(/** @type {HTMLInputElement} */ (event.currentTarget).value.trim())} /></label>
      <button type="submit" class="primary">${namesModel(typed) ? 'Pull' : 'Search'}</button>
    </form>
    ${(running || error) && html`<div class="progress" role=${running ? 'status' : undefined}>
      ${running
        ? html`<strong>${name}</strong><progress aria-label=${`Pulling ${name}`} max="1" value=${share.total === 0 ? undefined : share.completed / share.total}></progress>
          <span>${share.total === 0 ? status : `${bytes(share.completed)} of ${bytes(share.total)}, ${percent(share.completed / share.total)}`}</span>`
        : html`<p class="error stretch" role="alert">${name}: ${error}</p>`}
      <button type="button" onClick=${(/** @type {MouseEvent} */ event) => { if (event.detail < 2) void (running ? pulling.cancel() : pulling.pull(name)); }}>${running ? 'Pause' : pulling.paused ? 'Resume' : 'Try again'}</button>
      ${!running && html`<button type="button" class="quiet" onClick=${() => pulling.forget()}>Dismiss</button>`}</div>`}
    ${words !== '' && html`<${Found} key=${searches} words=${words} opened=${opened} open=${setOpened} />`}
    ${words === '' && opened !== '' && html`<${Offers} key=${searches} repository=${opened} />`}`;
}

/** @param {{ words: string, opened: string, open: (name: string) => void }} props */
function Found({ words, opened, open }) {
  /** @type {ReturnType<typeof useHub<Repository>>} */
  const { data, error, asking } = useHub(`ui/hub?search=${encodeURIComponent(words)}`);
  if (asking) return html`<p class="dim" role="status">Searching…</p>`;
  if (error) return html`<p class="error" role="alert">${error}</p>`;
  if (!data || data.length === 0) return html`<p class="dim" role="status">No repository with GGUF files matches.</p>`;
  return html`<ul class="found" aria-label="Found on the hub">${data.map(({ name, downloads, likes, gated }) => html`<li key=${name}>
    <button type="button" class="found-head" aria-expanded=${opened === name} onClick=${() => open(opened === name ? '' : name)}>
      <strong>${name}</strong>${gated && html`<span class="tag">license to accept</span>`}
      <span class="dim">${count(downloads)} downloads, ${count(likes)} likes</span></button>
    ${opened === name && html`<${Offers} repository=${name} />`}
  </li>`)}</ul>`;
}

/** @param {{ repository: string }} props */
function Offers({ repository }) {
  const { running } = useEmitter(pulling);
  /** @type {ReturnType<typeof useHub<Offer>>} */
  const { data, error, asking } = useHub(`ui/hub?repository=${encodeURIComponent(repository)}`);
  if (asking) return html`<p class="dim" role="status">Listing its models…</p>`;
  if (error) return html`<p class="error" role="alert">${error}</p>`;
  if (!data || data.length === 0) return html`<p class="dim" role="status">${repository} has no complete GGUF model.</p>`;
  return html`<div class="table wide offers" tabindex="0" role="region" aria-label=${`Models of ${repository}`}><table>
    <thead><tr><th>Quantization</th><th class="align-right">Download</th><th class="align-right offers-memory">Memory</th><th>This machine</th><th><span class="hidden">Actions</span></th></tr></thead>
    <tbody>${data.map(({ name, file, quantization, sizeBytes, storedBytes, memoryBytes, fits, recommended }) => html`<tr key=${file}>
      <th scope="row" title=${file}>${quantization || file}${recommended && html` <span class="tag">recommended</span>`}</th>
      <td class="align-right">${bytes(sizeBytes)}</td>
      <td class="align-right offers-memory">${bytes(memoryBytes)}</td>
      <td class=${fits ? '' : 'warn'}>${fits ? 'fits' : 'too large'}${storedBytes > 0 && storedBytes < sizeBytes ? `, ${percent(storedBytes / sizeBytes)} downloaded` : ''}</td>
      <td class="row-actions">${storedBytes >= sizeBytes ? html`<span class="dim">downloaded</span>` : html`<button type="button" aria-disabled=${running} aria-label=${`Pull ${name}`} onClick=${() => pulling.pull(name)}>Pull</button>`}</td>
    </tr>`)}</tbody>
  </table></div>`;
}
