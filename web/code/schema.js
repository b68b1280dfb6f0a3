// A JSON schema as a list of fields. Nested fields are drawn when the user opens them, since a
// schema may contain itself.
import { html, useState } from '../app/html.js';
import { Prose } from './prose.js';

/** @param {any} schema @param {any} document @returns {any} the schema that a reference names */
export function followed(schema, document) {
  let at = schema ?? {};
  for (let steps = 0; at.$ref && steps < 20; steps++) at = document.components.schemas[at.$ref.split('/').at(-1)] ?? {};
  return at;
}

/** @param {any} schema @param {any} document @returns {string} */
function typeOf(schema, document) {
  const name = schema?.$ref?.split('/').at(-1);
  const one = followed(schema, document);
  if (one.const !== undefined) return JSON.stringify(one.const);
  if (one.enum) return one.enum.map((/** @type {unknown} */ value) => JSON.stringify(value)).join(' | ');
  const choices = one.anyOf ?? one.oneOf;
  if (choices) return name ?? [...new Set(choices.map((/** @type {any} */ choice) => typeOf(choice, document)))].join(' | ');
  if (one.type === 'array') {
    const item = typeOf(one.items, document);
    return `array of ${item.includes(' ') ? `(${item})` : item}`;
  }
  return name ?? (Array.isArray(one.type) ? one.type.join(' | ') : one.type ?? 'any');
}

/** @param {any} schema */
function boundsOf({ minimum, maximum, default: usual, maxLength, maxItems }) {
  return [
    minimum !== undefined && `min ${minimum}`, maximum !== undefined && `max ${maximum}`, maxLength !== undefined && `at most ${maxLength} characters`,
    maxItems !== undefined && `at most ${maxItems} items`, usual !== undefined && `default ${JSON.stringify(usual)}`,
  ].filter(Boolean).join(', ');
}

/** The object schemas inside a schema. @param {any} schema @param {any} document @returns {any[]} */
function insides(schema, document) {
  const one = followed(schema, document);
  if (one.properties) return [one];
  if (one.items) return insides(one.items, document);
  return (one.anyOf ?? one.oneOf ?? one.allOf ?? []).flatMap((/** @type {any} */ choice) => insides(choice, document));
}

/** @param {{ schema: any, document: any, depth: number }} props */
export function Schema({ schema, document, depth }) {
  const objects = insides(schema, document);
  if (objects.length === 0) return html`<p><code>${typeOf(schema, document)}</code></p>`;
  return objects.map((one, at) => html`${at > 0 && html`<p class="dim">or</p>`}
    <dl class="fields">${Object.entries(one.properties).map(([name, field]) => html`<${Field} key=${name} name=${name} schema=${field} required=${one.required?.includes(name)} document=${document} depth=${depth} />`)}</dl>`);
}

/** @param {{ name: string, schema: any, required: boolean, document: any, depth: number }} props */
function Field({ name, schema, required, document, depth }) {
  const [open, setOpen] = useState(false);
  const one = followed(schema, document);
  const description = schema.description ?? one.description ?? '';
  const deeper = depth < 8 && insides(schema, document).length > 0;
  return html`<div>
    <dt><code>${name}</code> <span class="dim">${typeOf(schema, document)}${required ? ', required' : ''}</span></dt>
    <dd>${description && html`<${Prose} text=${description} />`}${boundsOf({ ...one, ...schema }) && html`<p class="dim">${boundsOf({ ...one, ...schema })}</p>`}
      ${deeper && html`<details onToggle=${(/** @type {Event} */ event) => { event.stopPropagation(); setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open); }}><summary class="dim">fields</summary>
        ${open && html`<${Schema} schema=${schema} document=${document} depth=${depth + 1} />`}</details>`}</dd>
  </div>`;
}
