// A table of the answers being written, with how much of each prompt is read.
import { html } from '../app/html.js';
import { count, duration, percent, speed } from '../app/units.js';

/**
 * @typedef {{ id: string, model: string, key?: string, startedMs: number, promptTokens?: number, promptRead: number,
 *   cachedTokens: number, generated?: number, tokensPerSecond: number }} Running
 */

/** @param {Running} answer */
function stateOf({ promptTokens = 0, promptRead, generated }) {
  // It began before this view was open, so the server reports no progress for it.
  if (generated === undefined) return 'running';
  if (generated > 0) return 'generating';
  return promptRead === 0 ? 'waiting' : promptRead < promptTokens ? 'reading prompt' : 'starting';
}

/** @param {{ running: Running[] }} props */
export function Answers({ running }) {
  const by = running.some(({ key }) => key);
  return html`<h2>Answers in progress</h2>
    ${running.length === 0 ? html`<p class="dim">None.</p>` : html`<div class="table wide stacked" tabindex="0" role="region" aria-label="Answers in progress"><table>
      <thead><tr><th>Model</th>${by && html`<th>Key</th>`}<th>State</th><th>Prompt read</th><th class="align-right">Cached</th><th class="align-right">Generated</th><th class="align-right">Speed</th><th class="align-right">Time</th><th>Id</th></tr></thead>
      <tbody>${running.map((answer, at) => html`<${Row} key=${`${answer.id} ${at}`} answer=${answer} by=${by} />`)}</tbody>
    </table></div>`}`;
}

/** @param {{ answer: Running, by: boolean }} props `by`: shows who asked */
function Row({ answer, by }) {
  const { id, model, key, startedMs, promptTokens, promptRead, cachedTokens, generated, tokensPerSecond } = answer;
  const share = promptTokens ? promptRead / promptTokens : 0;
  return html`<tr>
    <th scope="row">${model}</th>
    ${by && html`<td data-label="key">${key ?? '–'}</td>`}
    <td>${stateOf(answer)}</td>
    <td data-label="prompt read"><span class="read">${generated === undefined ? '–' : html`<progress max="1" value=${share} aria-label="Prompt read">${percent(share)}</progress> ${count(promptRead)}`}${promptTokens === undefined ? '' : ` of ${count(promptTokens)}`}</span></td>
    <td class="align-right" data-label="cached">${generated === undefined ? '–' : count(cachedTokens)}</td>
    <td class="align-right" data-label="generated">${generated === undefined ? '–' : count(generated)}</td>
    <td class="align-right" data-label="speed">${tokensPerSecond > 0 ? speed(tokensPerSecond) : '–'}</td>
    <td class="align-right" data-label="time">${duration(Math.max(0, Date.now() - startedMs))}</td>
    <td class="dim id" title=${id}><code>${id}</code></td>
  </tr>`;
}
