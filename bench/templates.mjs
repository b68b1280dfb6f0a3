// `npm run bench -- --templates [TEMPLATE …]`: renders bodies of chat completions as prompts, by
// llama-server's /apply-template and by the code that ours uses, with every vendored template. Each
// must give the same text or be refused by llama-server: Recua fixes some of what it refuses
// (docs/history.md). One server of ours per template would take longer and show no more.
import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { loadAddon } from '../dist/addon/addon.js';
import { renderChat } from '../dist/engine/prompts/chat.js';
import { Fields } from '../dist/request/fields.js';
import { readChatRequest } from '../dist/server/openai/chat-request.js';
import { makeConfig } from '../dist/settings/config.js';
import { withServer } from './servers.mjs';

const folder = fileURLToPath(new URL('../vendor/llama.cpp/models/templates/', import.meta.url));
const bodies = JSON.parse(readFileSync(new URL('../test/native/chat/bodies.json', import.meta.url), 'utf8'));

/** The prompt, or nothing and the error. */
async function renderOurs(model, template, body) {
  try {
    const { request } = readChatRequest(Fields.of(body), {
      defaults: makeConfig({}),
      model: { vocabSize: 1_000_000, contextSize: 1_000_000 },
    });
    return { prompt: (await renderChat(model, template, request)).prompt };
  } catch (error) {
    return { refusal: error.message };
  }
}

async function renderTheirs({ url }, body) {
  const reply = await fetch(`${url}/apply-template`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  const { prompt, error } = await reply.json();
  return { prompt, refusal: reply.ok ? undefined : `${reply.status} ${error?.message}` };
}

/** Both texts, from where they differ. */
function difference(ours, theirs) {
  let at = 0;
  while (at < ours.length && ours[at] === theirs[at]) at++;
  const show = (text) => JSON.stringify(text.slice(Math.max(0, at - 30), at + 90));
  return `\n    Recua        ${show(ours)}\n    llama-server ${show(theirs)}`;
}

/** Prints the differences; returns whether there are none. */
export async function compareTemplates({ model, threads, only = [] }) {
  const loaded = await loadAddon().loadModel({ path: model, gpuLayers: 0, mmap: true, mlock: false }).promise;
  const files = readdirSync(folder).filter((name) => name.endsWith('.jinja') && (only.length === 0 || only.some((part) => name.includes(part))));
  const count = { same: 0, refused: 0, inOrder: 0, differ: 0 };
  for (const file of files) {
    const settings = { model, threads, parallel: 1, context: 512, template: `${folder}${file}` };
    const template = readFileSync(settings.template, 'utf8');
    await withServer('llama-server', settings, async (server) => {
      for (const [name, body] of Object.entries(bodies)) {
        const a = await renderOurs(loaded, template, JSON.parse(JSON.stringify(body)));
        const b = await renderTheirs(server, body);
        if (a.prompt === undefined && b.prompt === undefined) count.refused++;
        else if (a.prompt === b.prompt) count.same++;
        else if (b.prompt === undefined) count.inOrder++;
        else {
          count.differ++;
          console.log(`${file}, ${name}${a.prompt === undefined ? `\n    Recua        ${a.refusal}` : difference(a.prompt, b.prompt)}`);
        }
      }
    });
    process.stderr.write(`${file}: ${JSON.stringify(count)}\n`);
  }
  loaded.close();
  console.log(`${files.length} templates × ${Object.keys(bodies).length} bodies: ${count.same} prompts are the same, ${count.refused} bodies are refused by both, ${count.inOrder} by llama-server alone, ${count.differ} prompts differ.`);
  return count.differ === 0;
}
