// What the server is doing: requests, speed and memory, as numbers and recent charts.
import { html, useEffect, useState } from '../app/html.js';
import { Emitter, useEmitter } from '../app/emitter.js';
import { models, ModelsError, useModels } from '../app/models.js';
import { json } from '../app/server.js';
import { bytes, count, duration, percent, speed } from '../app/units.js';
import { Answers } from './answers.js';
import { Curve } from './curve.js';
import { Settings } from './settings.js';

const everyMs = 1_000;
/** Three minutes. */
const mostKept = 180;

/** @typedef {{ answers: number, firstTokenMs: number, promptTokens: number, cachedTokens: number }} Totals */

/** @type {Totals} */
const noTotals = { answers: 0, firstTokenMs: 0, promptTokens: 0, cachedTokens: 0 };

/** Measurements since the page was opened. */
class History extends Emitter {
  /** @type {{ speed: number, running: number, waiting: number, memory: number, first: number, cached: number }[]} */
  points = [];
  /** Totals of all answers since the server started, as of the last sample. @type {Totals | undefined} */
  #totals;

  /** @param {import('../app/models.js').Model[]} list @param {Totals | undefined} totals */
  add(list, totals) {
    // If no answer ended since the last sample, these values stay.
    const { first = 0, cached = 0 } = this.points.at(-1) ?? {};
    const known = this.#totals ?? totals;
    // A server that was started again counts from zero.
    const before = totals && known && totals.answers >= known.answers ? known : noTotals;
    const ended = totals ? totals.answers - before.answers : 0;
    const prompt = totals ? totals.promptTokens - before.promptTokens : 0;
    this.#totals = totals ?? this.#totals;
    /** @param {(model: import('../app/models.js').Model) => number | undefined} of */
    const sum = (of) => list.reduce((total, model) => total + (of(model) ?? 0), 0);
    this.points = [...this.points.slice(1 - mostKept), {
      speed: sum(({ status }) => status.tokens_per_second),
      running: sum(({ status }) => status.running),
      waiting: sum(({ status }) => status.waiting),
      first: totals && ended > 0 ? (totals.firstTokenMs - before.firstTokenMs) / ended : first,
      cached: totals && prompt > 0 ? (totals.cachedTokens - before.cachedTokens) / prompt : cached,
      memory: sum(({ status, memory_bytes: memory }) => (isHere(status.value) ? memory : 0)),
    }];
    this.changed();
  }
}

const history = new History();

/** @param {string} state */
const isHere = (state) => state === 'loaded' || state === 'loading' || state === 'unloading';

export function NowView() {
  const { list } = useModels(everyMs);
  const { points } = useEmitter(history);
  const [health, setHealth] = useState(/** @type {Record<string, any>} */ ({}));
  const [running, setRunning] = useState(/** @type {import('./answers.js').Running[]} */ ([]));
  useEffect(() => models.watch(() => {
    if (models.error === '') {
      json('ui/running').then(({ data, totals }) => {
        setRunning(data);
        history.add(models.list, totals);
      }, () => history.add(models.list, undefined));
    }
    // While a model loads, /health returns 503, which is not an error here.
    json('health').then(setHealth, () => setHealth({}));
  }), []);
  const here = list.filter(({ status }) => status.value !== 'unloaded');
  const now = points.at(-1) ?? { speed: 0, running: 0, waiting: 0, memory: 0, first: 0, cached: 0 };
  return html`<section class="panel" aria-labelledby="now-title">
    <h1 id="now-title">Now</h1>
    <${ModelsError} />
    <dl class="figures">
      <div><dt>Running</dt><dd>${count(now.running)}</dd></div>
      <div><dt>Waiting</dt><dd>${count(now.waiting)}</dd></div>
      <div title="Of all kinds, also those that only count tokens, which the list below leaves out"><dt>Requests so far</dt><dd>${health['requests'] === undefined ? '–' : count(health['requests'])}</dd></div>
      ${health['crashes'] !== undefined && html`<div><dt>Crashes</dt><dd class=${health['crashes'] > 0 ? 'warn' : ''}>${count(health['crashes'])}</dd></div>`}
      <div><dt>Loaded</dt><dd>${here.filter(({ status }) => status.value === 'loaded').length} of ${list.length}</dd></div>
    </dl>
    <div class="curves">
      <${Curve} label="Speed" values=${points.map((point) => point.speed)} most=${mostKept} text=${speed} />
      <${Curve} label="In progress" values=${points.map(({ running, waiting }) => running + waiting)} most=${mostKept} text=${count} />
      <${Curve} label="First token" values=${points.map(({ first }) => first)} most=${mostKept} text=${(/** @type {number} */ ms) => (ms === 0 ? '–' : duration(ms))} />
      <${Curve} label="Cached" values=${points.map(({ cached }) => cached)} most=${mostKept} text=${(/** @type {number} */ share) => (now.first === 0 ? '–' : percent(share))} />
      <${Curve} label="Memory" values=${points.map((point) => point.memory)} most=${mostKept} text=${bytes} />
    </div>
    <p class="dim note">Since you opened this view, at most the last three minutes.</p>
    <h2>Active models</h2>
    ${here.length === 0 ? html`<p class="dim">No model is loaded.</p>` : html`<div class="table wide stacked" tabindex="0" role="region" aria-label="Active models"><table>
      <thead><tr><th>Model</th><th>State</th><th>Slots</th><th class="align-right">Waiting</th><th class="align-right">Speed</th><th class="align-right">Memory</th><th>Device</th><th>Unloads</th></tr></thead>
      <tbody>${here.map((model) => html`<${Row} key=${model.id} model=${model} />`)}</tbody>
    </table></div>`}
    <${Answers} running=${running} />
    <${Requests} />
    <${Settings} />
  </section>`;
}

/** @param {{ model: import('../app/models.js').Model }} props */
function Row({ model: { id, status, memory_bytes: memory, meta, expires_at: expires, pinned, fixed } }) {
  const [slots, setSlots] = useState(/** @type {{ id: number, is_processing: boolean }[]} */ ([]));
  useEffect(() => {
    if (status.value === 'loaded') json(`slots?model=${encodeURIComponent(id)}`).then(setSlots, () => undefined);
  }, [status.value, status.running]);
  const busy = slots.filter((slot) => slot.is_processing).length;
  const layers = meta?.['n_gpu_layers'];
  const onDevices = meta?.['device_memory_bytes'];
  return html`<tr>
    <th scope="row">${id}</th>
    <td><span class=${`state ${status.value}`}>${status.value}</span></td>
    <td data-label="slots"><span class="slots" role="img" aria-label=${`${busy} of ${slots.length} busy`}>${slots.map((slot) => html`<i key=${slot.id} class=${slot.is_processing ? 'busy' : ''}></i>`)}</span></td>
    <td class="align-right" data-label="waiting">${status.waiting ?? '–'}</td>
    <td class="align-right" data-label="speed">${status.tokens_per_second === undefined ? '–' : speed(status.tokens_per_second)}</td>
    <td class="align-right" data-label="memory">${memory && isHere(status.value) ? bytes(memory) : '–'}</td>
    <td data-label="device">${layers === undefined ? '–' : layers === 0 ? 'CPU' : `${layers}/${meta?.['n_layers']} on ${meta?.['devices']?.join(', ') || 'GPU'}${onDevices ? `, ${bytes(onDevices)}` : ''}`}</td>
    <td data-label="unloads">${!isHere(status.value) ? '–' : pinned && !fixed ? 'never, pinned' : expires === null || expires === undefined ? 'never' : `in ${duration(Math.max(0, expires * 1_000 - Date.now()))}`}</td>
  </tr>`;
}

/** The page itself sends these while a user types or looks at models. */
const countsOrDescribes = /^\/(tokenize|api\/show|v1\/(messages\/count_tokens|responses\/input_tokens|chat\/completions\/input_tokens))$/;

/** Refreshed as often as the models. */
function Requests() {
  const [list, setList] = useState(/** @type {Record<string, any>[]} */ ([]));
  useEffect(() => models.watch(() => {
    json('ui/requests').then(({ data }) => setList(data.filter((/** @type {{ path: string }} */ { path }) => !countsOrDescribes.test(path))), () => undefined);
  }), []);
  const by = list.some((one) => one['key']);
  return html`<h2>Recent requests</h2>
    <p class="dim note">The last 200. Not shown: requests that count tokens or describe a model.</p>
    ${list.length === 0 ? html`<p class="dim">None yet.</p>` : html`<div class="table wide stacked" tabindex="0" role="region" aria-label="Recent requests"><table>
      <thead><tr><th>Time</th><th>Request</th><th>Model</th>${by && html`<th>Key</th>`}<th>Status</th><th class="align-right">Prompt</th><th class="align-right">Answer</th><th class="align-right">Duration</th><th>Id</th></tr></thead>
      <tbody>${list.map((one) => html`<tr key=${one['id'] + one['startedMs']}>
        <td>${new Date(one['startedMs']).toLocaleTimeString()}</td>
        <td class="path" title=${one['path']}><code>${one['method']} ${one['path']}</code></td>
        <td data-label="model">${one['model'] ?? '–'}</td>
        ${by && html`<td data-label="key">${one['key'] ?? '–'}</td>`}
        <td class=${one['status'] >= 400 || one['error'] ? 'warn' : ''}>${one['status'] ?? (one['error'] ? 'cut off' : 'stopped')} ${one['error'] ?? ''}</td>
        <td class="align-right" data-label="prompt">${one['promptTokens'] === undefined ? '–' : count(one['promptTokens'])}</td>
        <td class="align-right" data-label="answer">${one['completionTokens'] === undefined ? '–' : count(one['completionTokens'])}</td>
        <td class="align-right" data-label="duration">${duration(one['durationMs'])}</td>
        <td class="dim id" title=${one['id']}><code>${one['id']}</code></td>
      </tr>`)}</tbody>
    </table></div>`}`;
}
