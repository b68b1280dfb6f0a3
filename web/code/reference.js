// The API reference, from GET /openapi.json: every route with its fields, and a form to try it.
import { html, useEffect, useMemo, useState } from '../app/html.js';
import { json, sentenceOf } from '../app/server.js';
import { Prose } from './prose.js';
import { Schema } from './schema.js';
import { TryIt } from './try-it.js';

/**
 * @typedef {{
 *   name: string, in: 'path' | 'query' | 'header', required?: boolean, description?: string,
 *   schema?: any, example?: string,
 * }} Parameter
 * @typedef {{
 *   method: string, path: string, also: string[], id: string, tag: string, summary: string,
 *   description?: string, parameters: Parameter[],
 *   body?: { type: string, schema: any, example: any }, replies: Record<string, any>,
 * }} Route
 */

const methods = ['get', 'post', 'put', 'delete'];

/**
 * All routes. A route with several paths is listed once, with all of them.
 * @param {any} document
 * @returns {Route[]}
 */
export function routesOf(document) {
  /** @type {Map<string, Route>} */
  const routes = new Map();
  for (const [path, item] of Object.entries(document.paths)) {
    for (const method of methods) {
      const about = item[method];
      if (!about) continue;
      const id = about.operationId.replace(/\d+$/, '');
      const known = routes.get(id);
      if (known) {
        known.also.push(path);
        continue;
      }
      const [type, content] = Object.entries(about.requestBody?.content ?? {})[0] ?? [];
      routes.set(id, {
        method,
        path,
        also: [],
        id,
        tag: about.tags[0],
        summary: about.summary,
        description: about.description,
        parameters: about.parameters ?? [],
        replies: about.responses,
        ...(type === undefined ? {} : { body: { type, schema: content.schema, example: content.example } }),
      });
    }
  }
  return [...routes.values()];
}

export function Reference() {
  const [document, setDocument] = useState(/** @type {any} */ (undefined));
  const [error, setError] = useState('');
  const [wanted, setWanted] = useState('');
  useEffect(() => void json('openapi.json').then(setDocument, (thrown) => setError(sentenceOf(thrown))), []);
  const routes = useMemo(() => (document ? routesOf(document) : []), [document]);
  if (error) return html`<p class="error" role="alert">${error}</p>`;
  if (!document) return html`<p class="dim" role="status">Loading openapi.json…</p>`;
  const words = wanted.trim().toLowerCase();
  const shown = routes.filter(({ path, also, summary, method }) => `${method} ${path} ${also.join(' ')} ${summary}`.toLowerCase().includes(words));
  return html`<input type="search" class="narrow" aria-label="Search routes" placeholder="Search routes" value=${wanted} onInput=${(/** @type {Event} */ event) => setWanted(/** @type {HTMLInputElement} */ (event.currentTarget).value)} />
    ${shown.length === 0 && html`<p class="dim" role="status">No route matches.</p>`}
    ${document.tags.map((/** @type {{ name: string, description: string }} */ { name, description }) => {
      const ones = shown.filter(({ tag }) => tag === name);
      return ones.length > 0 && html`<section class="topic" key=${name} aria-label=${name}>
        <h3>${name}</h3>
        ${words === '' && description && html`<details class="about"><summary>About these routes</summary><${Prose} text=${description} /></details>`}
        ${ones.map((route) => html`<${RouteView} key=${route.id} route=${route} document=${document} />`)}
      </section>`;
    })}`;
}

/** @param {{ route: Route, document: any }} props */
function RouteView({ route, document }) {
  const { method, path, also, summary, description, parameters, body, replies } = route;
  const [open, setOpen] = useState(false);
  const all = Object.entries(replies);
  const replied = all.filter(([status]) => status < '4');
  const refused = all.filter(([status]) => status >= '4');
  return html`<details class="route" onToggle=${(/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open)}>
    <summary><span class=${`method ${method}`}>${method.toUpperCase()}</span><code>${path}</code><span class="dim">${summary}</span></summary>
    ${open && html`<div class="route-body">
      ${description && html`<${Prose} text=${description} />`}
      ${also.length > 0 && html`<p class="dim">Also at ${also.map((one, at) => html`${at > 0 ? ', ' : ''}<code>${one}</code>`)}</p>`}
      ${parameters.length > 0 && html`<h4>Parameters</h4><dl class="fields">${parameters.map((one) => html`<div key=${one.name}>
        <dt><code>${one.name}</code> <span class="dim">${one.in}${one.required ? ', required' : ''}</span></dt><dd><${Prose} text=${one.description ?? ''} /></dd></div>`)}</dl>`}
      ${body && html`<h4>Body</h4><${Schema} schema=${body.schema} document=${document} depth=${0} />`}
      <${TryIt} route=${route} document=${document} />
      <h4>Responses</h4>
      <dl class="fields">${replied.map(([status, reply]) => html`<div key=${status}>
        <dt><code>${status}</code></dt><dd><${Prose} text=${reply.description ?? ''} />
        ${Object.entries(reply.content ?? {}).map(([type, content]) => html`<details key=${type}><summary class="dim">${type}</summary><${Schema} schema=${/** @type {any} */ (content).schema} document=${document} depth=${0} /></details>`)}</dd></div>`)}</dl>
      <details class="errors"><summary>Errors</summary><dl class="fields">${refused.map(([status, reply]) => html`<div key=${status}>
        <dt><code>${status}</code></dt><dd><${Prose} text=${reply.description ?? ''} /></dd></div>`)}</dl></details>
    </div>`}
  </details>`;
}
