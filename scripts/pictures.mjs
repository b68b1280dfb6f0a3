// `node scripts/pictures.mjs [folder]`: takes the page's screenshots for docs/images in Chromium
// (from PATH, or RECUA_CHROMIUM). The server is `recua api builtin`; a proxy in front of it makes
// up the model list and the chat answers, because the built-in model says little. All other numbers
// are the server's.
import { createServer, request } from 'node:http';
import { mkdirSync, statSync } from 'node:fs';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { findChromium, startRecua } from './page.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = process.argv[2] ?? join(root, 'docs', 'images');
const mostBytes = 120_000;
const workMs = 30_000;
const wide = { width: 1200, height: 780 };
const phone = { width: 390, height: 800 };

const example = 'example/chat-3B-GGUF:Q4_K_M';
const other = 'example/chat-1B-GGUF:Q8_0';
const gib = 2 ** 30;
const models = [
  { id: example, status: { value: 'loaded', running: 1, waiting: 0, tokens_per_second: 50.3 }, memory_bytes: 2.6 * gib, pinned: true, context_length: 8_192, capabilities: ['completion'], meta: { n_params: 3.2e9, size: 1.9 * gib }, file_bytes: 1.9 * gib },
  { id: other, status: { value: 'loaded', running: 0, waiting: 0 }, memory_bytes: 1.4 * gib, context_length: 8_192, capabilities: ['completion'], meta: { n_params: 1.2e9, size: 1.2 * gib }, file_bytes: 1.2 * gib },
  { id: 'example/coder-7B-GGUF:Q5_K_M', status: { value: 'unloaded' }, capabilities: ['completion'], meta: { n_params: 7.6e9, size: 5.1 * gib }, file_bytes: 5.1 * gib },
  { id: 'example/embed-GGUF:F16', status: { value: 'unloaded' }, capabilities: ['embedding'], meta: { n_params: 1.4e8, size: 0.27 * gib }, file_bytes: 0.27 * gib },
];

const answer = `A *recua* is a pack train: a string of llamas or mules, roped one behind the other, that carried goods over the Andes.

| Animal | Load | Per day |
|---|---:|---:|
| Llama | 25–35 kg | 20 km |
| Mule | 90–120 kg | 30 km |

With $n$ animals that carry $l$ each over a distance $d$ per day, a train moves

$$W = n \\cdot l \\cdot d$$

In Python:

\`\`\`python
def work(animals: int, load_kg: float, km_per_day: float) -> float:
    """Kilogram-kilometers that a pack train moves in a day."""
    return animals * load_kg * km_per_day

print(work(40, 30, 20))  # 24000
\`\`\`

1. Llamas eat what grows beside the road.
2. They walk where no wheel does.`;

/** Answers by the beginning of the question. */
const scripts = [
  ['What is a recua', { reasoning: 'The Andes, then. Loads first, then the sum.', content: answer }],
  ['Why is the sky', { content: 'Air scatters **blue** light far more than red: the strength goes with $\\lambda^{-4}$. So blue comes from all of the sky, and red from where the sun is.' }],
  ['Where is Cusco', { content: '{"city":"Cusco","country":"Peru","elevation_m":3399,"languages":["Spanish","Quechua"]}' }],
  ['', { content: 'Day 1: arrive, and walk slowly.' }],
];

async function readBody(req) {
  let text = '';
  for await (const piece of req.setEncoding('utf8')) text += piece;
  return JSON.parse(text);
}

async function startFront(port) {
  const server = createServer(async (req, res) => {
    const send = (value) => res.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(value));
    if (req.url === '/v1/models') return send({ object: 'list', data: models.map((model) => ({ object: 'model', owned_by: 'recua', ...model, meta: { ...model.meta, ftype: model.id.split(/GGUF:/)[1] } })) });
    if (req.method === 'POST' && req.url === '/tokenize') return send({ tokens: (await readBody(req)).content.match(/\w+|\W/g) ?? [] });
    if (req.method === 'POST' && req.url === '/v1/chat/completions') return chat(await readBody(req), res);
    // The made-up models have the built-in model's settings.
    const path = req.url.replace(/^\/props\?.*/, '/props');
    const asked = request({ port, method: req.method, path, headers: req.headers }, (reply) => {
      res.writeHead(reply.statusCode, reply.headers);
      reply.pipe(res);
    });
    asked.on('error', () => res.destroy());
    req.pipe(asked);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, url: `http://127.0.0.1:${server.address().port}/` };
}

function chat({ messages, model }, res) {
  const question = messages.findLast(({ role }) => role === 'user').content;
  const [, { reasoning = '', content }] = scripts.find(([begin]) => question.startsWith(begin));
  const speed = model === other ? 128.9 : 50.3;
  const event = (value) => res.write(`data: ${JSON.stringify(value)}\n\n`);
  res.writeHead(200, { 'Content-Type': 'text/event-stream' });
  event({ choices: [{ index: 0, delta: { ...(reasoning ? { reasoning_content: reasoning } : {}) } }] });
  event({ choices: [{ index: 0, delta: { content } }] });
  event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
  event({
    choices: [], timings: { cache_n: 380, prompt_n: 32, predicted_n: Math.round(content.length / 4), predicted_per_second: speed },
    ...(reasoning ? { usage: { completion_tokens_details: { reasoning_tokens: 14 } } } : {}),
  });
  res.end('data: [DONE]\n\n');
}

/** Runs the built-in model, for the Now view, until it is told to stop. */
async function work(port, enough) {
  const ask = (content, tokens) => fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ messages: [{ role: 'user', content }], max_tokens: tokens, temperature: 1, ignore_eos: true }),
  }).then((reply) => reply.text());
  await Promise.all(['a', 'b', 'c'].map(async (word, index) => {
    for (let at = 0; !enough.aborted; at++) {
      await ask(`Tell me ${word} story of ${at}`, 300 + 300 * ((at + index) % 4));
      await wait(150 * ((at + index) % 5));
    }
  }));
}

async function takePicture(page, name) {
  const path = join(folder, `${name}.png`);
  // Hide the pointer and the blinking cursor.
  await page.mouse.move(0, 0);
  await page.waitForTimeout(400);
  await page.screenshot({ path, caret: 'hide', animations: 'disabled' });
  const { size } = statSync(path);
  console.log(`${path} ${Math.round(size / 1_000)} kB${size > mostBytes ? ', which is too much' : ''}`);
  if (size > mostBytes) process.exitCode = 1;
}

async function say(page, text, answers = 1) {
  await page.getByRole('textbox', { name: 'Message' }).fill(text);
  const before = await page.locator('article.answer').count();
  await page.keyboard.press('Enter');
  await page.locator('article.answer .numbers').nth(before + answers - 1).waitFor();
}

async function pictures(browser, url, port) {
  const context = await browser.newContext({ viewport: wide });
  const page = await context.newPage();
  const colors = (colorScheme) => page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
  const fresh = () => page.getByRole('button', { name: 'New chat' }).first().click();
  await colors('light');
  await page.goto(url);
  await page.getByRole('combobox', { name: 'Model' }).selectOption(example);
  await say(page, 'Plan a week of hiking around Cusco');
  await fresh();
  await say(page, 'Why is the sky blue?');
  await fresh();
  await say(page, 'What is a recua, and how much does it carry?');
  await page.locator('math').first().waitFor();
  await page.locator('pre code span').first().waitFor();
  await takePicture(page, 'chat-light');
  await colors('dark');
  await takePicture(page, 'chat-dark');
  await page.setViewportSize(phone);
  await takePicture(page, 'chat-phone');
  await page.setViewportSize(wide);
  await colors('light');
  await page.goto(`${url}#/api`);
  await page.locator('main details').first().waitFor();
  await takePicture(page, 'api');
  await page.goto(`${url}#/models`);
  await page.getByText('example/embed').first().waitFor();
  await takePicture(page, 'models');

  await page.goto(`${url}#/`);
  await fresh();
  await page.getByRole('button', { name: 'Two models side by side' }).click();
  await say(page, 'Why is the sky blue?', 2);
  await takePicture(page, 'two-models');
  await page.getByRole('button', { name: 'Two models side by side' }).click();
  await fresh();
  await page.getByRole('button', { name: 'Chat settings' }).click();
  await page.getByText('Answer as JSON with this schema').click();
  await page.getByRole('textbox', { name: 'Answer as JSON with this schema' }).fill('{"type": "object", "properties": {"city": {"type": "string"}, "country": {"type": "string"}, "elevation_m": {"type": "integer"}, "languages": {"type": "array", "items": {"type": "string"}}}}');
  await say(page, 'Where is Cusco, and what is spoken there?');
  await takePicture(page, 'json');

  const enough = new AbortController();
  const working = work(port, enough.signal);
  await page.goto(`http://127.0.0.1:${port}/#/now`);
  await wait(workMs);
  await takePicture(page, 'now');
  enough.abort();
  await working;
  await context.close();
}

mkdirSync(folder, { recursive: true });
const { child, port } = await startRecua();
const { server, url } = await startFront(port);
const browser = await chromium.launch({ executablePath: findChromium(), args: ['--no-sandbox', '--disable-gpu'] });
try {
  await pictures(browser, url, port);
} finally {
  await browser.close();
  server.close();
  server.closeAllConnections();
  child.kill();
}
