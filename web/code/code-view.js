// The open conversation as code: its last request, in three languages. Below it, the API reference.
import { html, useState } from '../app/html.js';
import { useEmitter } from '../app/emitter.js';
import { models, useModels } from '../app/models.js';
import { copyText } from '../app/notice.js';
import { addressOf } from '../app/server.js';
import { inTab } from '../app/stored.js';
import { bodyOf } from '../chat/asking.js';
import { session } from '../chat/session.js';
import { Reference } from './reference.js';

const languages = ['curl', 'Python', 'JavaScript'];

/**
 * Characters. Linux starts no program with an argument of 128 KiB; the shell's own printf has no
 * limit.
 */
const longArgument = 40_000;

/** @param {unknown} value @param {string} [indent] */
const pretty = (value, indent = '') => JSON.stringify(value, undefined, 2).replaceAll('\n', `\n${indent}`);

/** A JSON value as Python source. @param {any} value @param {string} indent @returns {string} */
function python(value, indent) {
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (value === null) return 'None';
  const deeper = `${indent}    `;
  if (Array.isArray(value)) return value.length === 0 ? '[]' : `[\n${value.map((one) => `${deeper}${python(one, deeper)},\n`).join('')}${indent}]`;
  if (typeof value === 'object') return `{\n${Object.entries(value).map(([key, one]) => `${deeper}${JSON.stringify(key)}: ${python(one, deeper)},\n`).join('')}${indent}}`;
  return JSON.stringify(value);
}

/** OpenAI's fields. Its Python client takes all others in `extra_body`. */
const ofOpenAi = ['model', 'messages', 'stream', 'temperature', 'top_p', 'max_tokens', 'seed', 'presence_penalty', 'frequency_penalty', 'response_format', 'tools'];

/** @param {string} language @param {Record<string, any>} body */
function codeOf(language, body) {
  const rest = { ...body };
  delete rest['stream_options'];
  delete rest['timings_per_token'];
  const base = addressOf('v1');
  // The key itself stays out of what people copy.
  const isKeyed = inTab.get('apiKey') !== null;
  if (language === 'curl') {
    const text = pretty({ ...rest, stream: true }).replaceAll("'", "'\\''");
    const head = `curl -N '${addressOf('v1/chat/completions')}' \\\n  -H 'Content-Type: application/json' \\\n${isKeyed ? `  -H "Authorization: Bearer $RECUA_API_KEY" \\\n` : ''}  -d`;
    return text.length < longArgument ? `${head} '${text}'` : `printf %s '${text}' |\n${head} @-`;
  }
  const own = Object.fromEntries(Object.entries(rest).filter(([key]) => ofOpenAi.includes(key)));
  const more = Object.fromEntries(Object.entries(rest).filter(([key]) => !ofOpenAi.includes(key)));
  if (language === 'Python') {
    const lines = Object.entries(own).map(([key, value]) => `    ${key}=${python(value, '    ')},\n`);
    if (Object.keys(more).length > 0) lines.push(`    extra_body=${python(more, '    ')},\n`);
    return `${isKeyed ? 'import os\n' : ''}from openai import OpenAI\n\nclient = OpenAI(base_url="${base}", api_key=${isKeyed ? 'os.environ["RECUA_API_KEY"]' : '"none"'})\nstream = client.chat.completions.create(\n${lines.join('')})\nfor chunk in stream:\n    print(chunk.choices[0].delta.content or "", end="", flush=True)\n`;
  }
  return `import OpenAI from 'openai';\n\nconst client = new OpenAI({ baseURL: '${base}', apiKey: ${isKeyed ? 'process.env.RECUA_API_KEY' : "'none'"} });\nconst stream = await client.chat.completions.create(${pretty(rest)});\nfor await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? '');\n`;
}

export function CodeView() {
  const { conversation, path } = useEmitter(session);
  useModels(30_000);
  const [language, setLanguage] = useState('curl');
  // The messages up to the last question, without its answer. An empty chat shows an example.
  const asked = path.slice(0, path.findLastIndex(({ role }) => role !== 'assistant') + 1);
  const body = bodyOf(conversation, asked, conversation.model || models.chatting[0]?.id || 'default');
  if (asked.length === 0) body['messages'] = [...body['messages'], { role: 'user', content: 'Hello! Who are you?' }];
  const code = codeOf(language, body);
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (step === 0) return;
    const next = languages[(languages.indexOf(language) + step + languages.length) % languages.length] ?? 'curl';
    setLanguage(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  return html`<section class="panel" aria-labelledby="api-title">
    <h1 id="api-title">API</h1>
    <p>The server speaks OpenAI's API at <code>${addressOf('v1')}</code>, and the APIs of Anthropic, Ollama and llama-server. <a href=${addressOf('openapi.json')} target="_blank" rel="noopener">openapi.json</a> describes every route.</p>
    <h2>${asked.length === 0 ? 'A first request' : 'The current chat as a request'}</h2>
    <div class="tabs" role="tablist" aria-label="Language" onKeyDown=${onKey}>${languages.map((one) => html`<button key=${one} type="button" role="tab" id=${`tab-${one}`} aria-selected=${one === language} aria-controls="code" tabindex=${one === language ? 0 : -1} onClick=${() => setLanguage(one)}>${one}</button>`)}
      <span class="stretch"></span></div>
    <div class="code" id="code" role="tabpanel" aria-labelledby=${`tab-${language}`}>
      <div class="code-head"><span>${language}</span><button type="button" class="copy" onClick=${() => copyText(code)}>Copy</button></div>
      <pre tabindex="0">${code}</pre>
    </div>
    <h2>All routes</h2>
    <${Reference} />
  </section>`;
}
