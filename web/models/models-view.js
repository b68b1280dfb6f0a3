// The server's models and their state; load, unload, pull and delete them.
import { html, useEffect, useState } from '../app/html.js';
import { asked as askedFor, confirmed } from '../app/dialog.js';
import { IconButton } from '../app/icons.js';
import { models, ModelsError, useModels } from '../app/models.js';
import { notify } from '../app/notice.js';
import { json, mayAnswer, request, sentenceOf } from '../app/server.js';
import { bytes, count, percent, speed } from '../app/units.js';
import { HubSearch } from './hub-search.js';
import { Unfinished } from './unfinished.js';

/** @typedef {import('../app/models.js').Model} Model */
/** @typedef {{ name: string, modelStays: boolean }} Given an alias that a user gave */

/**
 * Details from the files of models that are not loaded, by id and time of the file: another file
 * may get the same id.
 * @type {Map<string, Record<string, any> | undefined>}
 */
const described = new Map();

/** @param {Model} model */
function useDescription({ id, created, meta }) {
  const file = `${id} ${created}`;
  const isKnown = meta !== undefined;
  const [, draw] = useState(0);
  useEffect(() => {
    const ask = () => {
      if (isKnown || described.has(file)) return;
      described.set(file, undefined);
      json('api/show', { body: { model: id }, quietly: true }).then((shown) => {
        described.set(file, shown.details);
        draw((number) => number + 1);
      }, () => described.delete(file));
    };
    ask();
    return mayAnswer.watch(ask);
  }, [file, isKnown]);
  return described.get(file);
}

export function ModelsView() {
  const { list, error, asked } = useModels(2_000);
  const [machine, setMachine] = useState({ memory: Infinity, keepAlive: 600 });
  useEffect(() => void json('ui/settings').then(({ memory, data }) => setMachine({
    memory: memory.totalBytes, keepAlive: Number.parseInt(data.find((/** @type {{ name: string }} */ { name }) => name === '--keep-alive')?.value ?? '600', 10),
  }), () => undefined), []);
  const [{ data: given, own }, setNames] = useState(/** @type {{ data: Given[], own: string[] }} */ ({ data: [], own: [] }));
  useEffect(() => void json('ui/aliases').then(setNames, () => undefined), [list]);
  return html`<section class="panel" aria-labelledby="models-title">
    <h1 id="models-title">Models</h1>
    <${ModelsError} />
    <${HubSearch} />
    <${Unfinished} />
    ${list.some(({ fixed }) => fixed) && html`<p class="dim">This server serves only ${list[0]?.id}. To use other models, including those that you pull here, stop it and run <code>recua api</code> without the name of a model.</p>`}
    ${asked && list.length === 0 && !error && html`<p class="dim">This server has no models yet. Search for one above, or run <code>recua pull owner/repo</code>.</p>`}
    ${list.length > 0 && html`<div class="table wide stacked models-table" tabindex="0" role="region" aria-label="Models of this server"><table>
      <thead><tr><th>Model</th><th>State</th><th class="align-right">Size</th><th class="align-right">Memory</th><th class="align-right">Parameters</th><th class="align-right">Quantization</th><th class="align-right">Context</th><th><span class="hidden">Actions</span></th></tr></thead>
      <tbody>${list.map((model) => html`<${Row} key=${model.id} model=${model} machine=${machine} given=${given} isOwn=${own.includes(model.id)} />`)}</tbody>
    </table></div>`}
  </section>`;
}

/**
 * @param {{
 *   model: Model, machine: { memory: number, keepAlive: number }, given: Given[], isOwn: boolean,
 * }} props `machine`: bytes of memory, and the seconds that an idle model stays loaded; `isOwn`:
 *   its name is not the store's
 */
function Row({ model, machine, given, isOwn }) {
  const { id, aliases = [], status, memory_bytes: memory, context_length: context, meta, pinned, fixed } = model;
  const details = useDescription(model);
  const [working, setWorking] = useState(false);
  /** @param {() => Promise<unknown>} work */
  const act = (work) => async () => {
    // The buttons keep the focus while they are disabled.
    if (working) return;
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
    const also = names.length > 0 ? ` and its ${names.length === 1 ? 'name' : 'names'} ${names.map(({ name: alias }) => `“${alias}”`).join(', ')}` : '';
    const isImported = id.startsWith('local/');
    if (!await confirmed(`Delete ${id}?`, `This removes its files from the store${also}. ${isImported ? 'The file that you imported stays where it is.' : 'It can be pulled again.'}`, 'Delete')) return;
    await request('api/delete', { method: 'DELETE', body: { model: id } });
    notify(`Deleted ${id}`);
  };
  const name = () => askedFor(`Add a name for ${id}`, '', 'Add', async (typed) => {
    const alias = typed.trim();
    if (!alias) return '';
    try {
      // A question for the API key would wait for this one.
      await request('api/copy', { body: { source: id, destination: alias }, quietly: true });
    } catch (thrown) {
      return sentenceOf(thrown);
    }
    notify(`${alias} now names ${id}`);
    return '';
  });
  /** @param {string} alias */
  const unname = async (alias) => {
    if (!await confirmed(`Remove the name ${alias}?`, `The model ${id} stays.`, 'Remove')) return;
    await request('api/delete', { method: 'DELETE', body: { model: alias } });
    notify(`Removed the name ${alias}`);
  };
  /** @param {number} [keepAlive] */
  const load = (keepAlive) => json('models/load', { body: { model: id, ...(keepAlive === undefined ? {} : { keep_alive: keepAlive }) } });
  const size = model.file_bytes ?? meta?.['size'] ?? 0;
  const stays = status.value === 'loaded' && model.expires_at === null;
  // Only names that a user gave: the names derived from the file would fill the row.
  const names = given.filter((one) => aliases.includes(one.name) && one.name !== id);
  const isHere = status.value === 'loaded' || status.value === 'loading';
  return html`<tr>
    <th scope="row">${id}${pinned && !fixed ? html` <span class="tag">pinned</span>` : ''}
      ${names.length > 0 && html`<ul class="aliases" aria-label=${`Names given to ${id}`}>${names.map(({ name: alias, modelStays }) => html`<li key=${alias} title=${modelStays ? undefined : 'Given by recua import: deleting this name deletes the model'}>${alias}${modelStays && html`<${IconButton} icon="close" label=${`Remove the name ${alias}`} aria-disabled=${working} onClick=${act(() => unname(alias))} />`}</li>`)}</ul>`}</th>
    <td><span class=${`state ${status.value}`}>${status.value}${status.fraction !== undefined ? ` ${percent(status.fraction)}` : ''}</span>
      ${status.running ? html` <span class="dim state-detail">${status.running} running, ${speed(status.tokens_per_second ?? 0)}</span>` : ''}
      ${status.reason && html`<p class="error">${status.reason.message}</p>`}</td>
    <${Cell} label="size" text=${size ? bytes(size) : ''} />
    <td class=${`align-right ${memory ? '' : 'empty'}`} data-label="memory">${memory && status.value !== 'sleeping' ? bytes(memory) : '–'}${Math.max(memory ?? 0, size) > machine.memory ? html` <span class="tag bad" title="Larger than the main memory of the server's machine">does not fit</span>` : ''}</td>
    <${Cell} label="parameters" text=${meta ? rounded(meta['n_params']) : details?.['parameter_size']} />
    <${Cell} label="quantization" text=${meta?.['ftype'] ?? details?.['quantization_level']} />
    <${Cell} label="context" text=${context === undefined ? '' : count(context)} />
    <td class="row-actions">
      ${fixed ? '' : html`${isHere
        ? html`<button type="button" aria-disabled=${working} onClick=${act(() => json('models/unload', { body: { model: id } }))}>Unload</button>`
        : html`<button type="button" aria-disabled=${working} onClick=${act(() => load())}>Load</button>`}
      ${pinned ? noButton : html`<${IconButton} icon="pin" label=${`Keep ${id} loaded`} aria-pressed=${stays} aria-disabled=${working} onClick=${act(() => load(stays ? machine.keepAlive : -1))} />`}
      ${id === 'builtin' || isOwn ? noButton : html`<${IconButton} icon="tag" label=${`Add a name for ${id}`} aria-disabled=${working} onClick=${act(name)} />`}`}
      ${id === 'builtin' || isOwn ? noButton : html`<${IconButton} icon="bin" label=${`Delete ${id}`} aria-disabled=${working} onClick=${act(remove)} />`}
    </td>
  </tr>`;
}

/** Keeps the buttons of all rows in line. */
const noButton = html`<span class="no-button"></span>`;

/** @param {{ label: string, text: string | undefined }} props `label`: shown on a phone, which has no head of the table */
const Cell = ({ label, text }) => html`<td class=${`align-right ${text ? '' : 'empty'}`} data-label=${label}>${text || '–'}</td>`;

/** As the server rounds it for models that are not loaded. @param {number} parameters */
function rounded(parameters) {
  const [amount, unit] = parameters >= 1e9 ? [parameters / 1e9, 'B'] : parameters >= 1e6 ? [parameters / 1e6, 'M'] : [parameters / 1e3, 'K'];
  return `${amount.toFixed(amount >= 100 ? 0 : 1)}${unit}`;
}
