// The server's models: what each is at, load and unload, pull and delete.
import { html, useEffect, useRef, useState } from '../app/html.js';
import { confirmed } from '../app/dialog.js';
import { Emitter, useEmitter } from '../app/emitter.js';
import { IconButton } from '../app/icons.js';
import { models, useModels } from '../app/models.js';
import { notify } from '../app/notice.js';
import { json, objects, request, sentenceOf } from '../app/server.js';
import { bytes, count, percent, speed } from '../app/units.js';

/** @typedef {import('../app/models.js').Model} Model */

/** A download goes on while other views are shown. */
class Pulling extends Emitter {
  name = '';
  status = '';
  error = '';
  /** Bytes by file: how many there are, how many are here. @type {Map<string, { total: number, completed: number }>} */
  #files = new Map();
  /** @type {AbortController | undefined} */
  #stop;

  get running() {
    return this.#stop !== undefined;
  }

  get share() {
    const files = [...this.#files.values()];
    const total = files.reduce((sum, file) => sum + file.total, 0);
    return { total, completed: files.reduce((sum, file) => sum + file.completed, 0) };
  }

  /** @param {string} name */
  async pull(name) {
    Object.assign(this, { name, status: 'looking for it', error: '' });
    this.#files.clear();
    const stop = (this.#stop = new AbortController());
    this.changed();
    try {
      for await (const { status, digest, total = 0, completed = 0 } of objects('api/pull', { model: name }, stop.signal)) {
        this.status = status;
        if (digest) this.#files.set(digest, { total, completed });
        this.changed();
      }
      notify(`${name} is here`);
      this.name = '';
    } catch (thrown) {
      this.error = stop.signal.aborted ? 'Stopped. Pull it again and it goes on where it was.' : sentenceOf(thrown);
    }
    this.#stop = undefined;
    this.changed();
    void models.refresh();
  }

  cancel() {
    this.#stop?.abort();
  }
}

const pulling = new Pulling();

/** What files say of models that are not loaded, by id. @type {Map<string, Record<string, any> | undefined>} */
const described = new Map();

/** @param {Model} model */
function useDescription({ id, meta }) {
  const [, draw] = useState(0);
  useEffect(() => {
    if (meta || described.has(id)) return;
    described.set(id, undefined);
    json('api/show', { body: { model: id } }).then((shown) => {
      described.set(id, shown.details);
      draw((number) => number + 1);
    }, () => undefined);
  }, [id, meta]);
  return described.get(id);
}

export function ModelsView() {
  const { list, error, asked } = useModels(2_000);
  return html`<section class="panel" aria-labelledby="models-title">
    <h1 id="models-title">Models</h1>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    <${PullForm} />
    ${asked && list.length === 0 && !error && html`<p class="dim">This server has no models yet. Pull one above, or run <code>recua pull owner/repo</code>.</p>`}
    ${list.length > 0 && html`<div class="table wide models-table" tabindex="0" role="region" aria-label="Models of this server"><table>
      <thead><tr><th>Model</th><th>State</th><th class="align-right">Memory</th><th class="align-right">Parameters</th><th class="align-right">Quantisation</th><th class="align-right">Context</th><th><span class="hidden">Actions</span></th></tr></thead>
      <tbody>${list.map((model) => html`<${Row} key=${model.id} model=${model} />`)}</tbody>
    </table></div>`}
  </section>`;
}

function PullForm() {
  const { name, status, error, running, share } = useEmitter(pulling);
  /** @type {{ current: HTMLInputElement | null }} */
  const field = useRef(null);
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    const wanted = field.current?.value.trim() ?? '';
    if (wanted !== '') void pulling.pull(wanted);
  };
  return html`<form class="pull" onSubmit=${submit}>
    <label class="stretch"><span class="hidden">Model of the hub</span><input ref=${field} placeholder="owner/repo:Q4_K_M from the hub" autocomplete="off" spellcheck="false" disabled=${running} /></label>
    ${running ? html`<button type="button" onClick=${() => pulling.cancel()}>Stop</button>` : html`<button type="submit" class="primary">Pull</button>`}
    ${running && html`<p class="progress" role="status"><progress aria-label=${`Pulling ${name}`} max="1" value=${share.total === 0 ? undefined : share.completed / share.total}></progress>
      <span>${share.total === 0 ? status : `${bytes(share.completed)} of ${bytes(share.total)}, ${percent(share.completed / share.total)}`}</span></p>`}
    ${error && html`<p class="error" role="alert">${name}: ${error}</p>`}
  </form>`;
}

/** @param {{ model: Model }} props */
function Row({ model }) {
  const { id, status, memory_bytes: memory, context_length: context, meta, pinned } = model;
  const details = useDescription(model);
  const [working, setWorking] = useState(false);
  /** @param {() => Promise<unknown>} work */
  const act = (work) => async () => {
    setWorking(true);
    try {
      await work();
    } catch (thrown) {
      notify(sentenceOf(thrown));
    }
    setWorking(false);
    await models.refresh();
  };
  const remove = async () => {
    if (!await confirmed(`Delete ${id}?`, 'Its files are removed from this machine. They can be pulled again.', 'Delete')) return;
    await request('api/delete', { method: 'DELETE', body: { model: id } });
    notify(`${id} is deleted`);
  };
  const isHere = status.value === 'loaded' || status.value === 'loading';
  return html`<tr>
    <th scope="row">${id}${pinned ? html` <span class="tag">pinned</span>` : ''}</th>
    <td><span class=${`state ${status.value}`}>${status.value}${status.fraction !== undefined ? ` ${percent(status.fraction)}` : ''}</span>
      ${status.running ? html` <span class="dim">${status.running} running, ${speed(status.tokens_per_second ?? 0)}</span>` : ''}
      ${status.reason && html`<p class="error">${status.reason.message}</p>`}</td>
    <${Cell} text=${memory ? bytes(memory) : ''} />
    <${Cell} text=${meta ? rounded(meta['n_params']) : details?.['parameter_size']} />
    <${Cell} text=${meta?.['ftype'] ?? details?.['quantization_level']} />
    <${Cell} text=${context === undefined ? '' : count(context)} />
    <td class="row-actions">
      ${isHere
        ? html`<button type="button" disabled=${working} onClick=${act(() => json('models/unload', { body: { model: id } }))}>Unload</button>`
        : html`<button type="button" disabled=${working} onClick=${act(() => json('models/load', { body: { model: id } }))}>Load</button>`}
      <${IconButton} icon="bin" label=${`Delete ${id}`} disabled=${working} onClick=${act(remove)} />
    </td>
  </tr>`;
}

/** @param {{ text: string | undefined }} props */
const Cell = ({ text }) => html`<td class=${`align-right ${text ? '' : 'empty'}`}>${text || '–'}</td>`;

/** @param {number} parameters */
const rounded = (parameters) => (parameters >= 1e9 ? `${(parameters / 1e9).toFixed(1)}B` : parameters >= 1e6 ? `${Math.round(parameters / 1e6)}M` : count(parameters));
