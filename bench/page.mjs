// `npm run bench -- page`: the size of the page at /, its first paint, whether a conversation of
// 2,000 messages scrolls without long tasks, and the cost of an answer with 500 tokens per second.
// In Chromium (from PATH, or RECUA_CHROMIUM) with a server of the built-in model; the benchmark
// itself sends the fast answer.
import { createServer, request } from 'node:http';
import { once } from 'node:events';
import { chromium } from 'playwright-core';
import { findChromium, startRecua } from '../scripts/page.mjs';

const goals = { firstLoadKb: 200, firstPaintMs: 100, longTasks: 0, streamingShare: 0.1 };
const messages = 2_000;
const tokensPerSecond = 500;
const streamSeconds = 10;
/** Per frame: at 60 frames a second, faster than anybody turns a wheel. */
const scrollPx = 300;
const loads = 7;

/** Paragraphs, lists and code, as in real answers. */
function textOf(tokens) {
  const parts = ['The **pack train** walks, ', 'one `llama` behind ', 'the other, and ', 'nobody hurries.\n\n', '- a load\n- a path\n\n', '```js\nconst load = path.map((step) => step + 1);\n```\n\n'];
  let text = '';
  for (let at = 0; text.length < tokens * 4; at++) text += parts[at % parts.length];
  return text;
}

/** A page with one style sheet and one word: what the browser itself takes to paint. */
const blank = {
  '/blank.html': ['text/html', '<!doctype html><link rel="stylesheet" href="blank.css"><body>word'],
  '/blank.css': ['text/css', 'body { color: red }'],
};

/** Proxies the server, but answers chats itself at a steady speed. */
async function startFront(port) {
  const server = createServer((req, res) => {
    if (Object.hasOwn(blank, req.url)) {
      const [type, body] = blank[req.url];
      return void res.writeHead(200, { 'Content-Type': type }).end(body);
    }
    if (req.method === 'POST' && req.url === '/v1/chat/completions') return void stream(req, res);
    const asked = request({ port, method: req.method, path: req.url, headers: req.headers }, (answer) => {
      res.writeHead(answer.statusCode, answer.headers);
      answer.pipe(res);
    });
    asked.on('error', () => res.destroy());
    req.pipe(asked);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

/** Sends an answer at a steady speed, with the pauses that the page asks for, like the server. */
async function stream(req, res) {
  const { stream_options: { interval_ms: intervalMs } } = JSON.parse(Buffer.concat(await req.toArray()).toString());
  res.writeHead(200, { 'Content-Type': 'text/event-stream' });
  const send = (event) => res.write(`data: ${JSON.stringify(event)}\n\n`);
  const text = textOf(tokensPerSecond * streamSeconds);
  const startMs = performance.now();
  let sent = 0;
  const timer = setInterval(() => {
    const ms = performance.now() - startMs;
    const due = Math.min(text.length, Math.round(ms / 1_000 * tokensPerSecond * 4));
    const tokens = Math.ceil(due / 4);
    // The page asks for these numbers; without them, it would have the tokens counted.
    const timings = {
      cache_n: 0,
      prompt_n: 10,
      prompt_ms: 1,
      prompt_per_token_ms: 0.1,
      prompt_per_second: 10_000,
      predicted_n: tokens,
      predicted_ms: ms,
      predicted_per_token_ms: ms / tokens,
      predicted_per_second: tokensPerSecond,
    };
    send({ choices: [{ index: 0, delta: { content: text.slice(sent, due) }, finish_reason: null }], timings });
    sent = due;
    if (sent < text.length) return;
    clearInterval(timer);
    send({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
    send({ choices: [], usage: { prompt_tokens: 10, completion_tokens: tokensPerSecond * streamSeconds } });
    res.end('data: [DONE]\n\n');
  }, intervalMs);
  res.once('close', () => clearInterval(timer));
}

/** Bytes of a response body on the wire. */
function sizeOf(address) {
  return new Promise((resolve, reject) => {
    request(address, { headers: { 'Accept-Encoding': 'br', Accept: 'text/html,*/*' } }, (answer) => {
      let bytes = 0;
      answer.on('data', (piece) => { bytes += piece.length; });
      answer.on('end', () => resolve(bytes));
    }).on('error', reject).end();
  });
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

async function sizes(browser, url) {
  const page = await browser.newPage();
  const asked = new Set();
  page.on('request', (one) => { if (/\/$|\/ui\/(?!requests|running|server|settings|hub|aliases)/.test(one.url())) asked.add(one.url()); });
  await page.goto(url);
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  const first = [...asked];
  // Files that an answer with code and a formula loads later.
  const later = ['vendor/highlight.js', 'vendor/languages/typescript.js', 'vendor/languages/python.js', 'vendor/temml.js'].map((name) => `${url}ui/${name}`).filter((address) => !asked.has(address));
  const sum = async (addresses) => (await Promise.all(addresses.map(sizeOf))).reduce((total, bytes) => total + bytes, 0) / 1_000;
  await page.close();
  const pdf = ['chat/pdf.js', 'vendor/pdf.js', 'vendor/pdf-worker.js'].map((name) => `${url}ui/${name}`);
  return { files: first.length, firstKb: await sum(first), laterKb: await sum(later), pdfKb: await sum(pdf) };
}

async function firstPaint(browser, url, ready) {
  const times = [];
  for (let at = 0; at < loads; at++) {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(url);
    await ready(page);
    // Not by waitForFunction(), which looks again by eval: the page's policy refuses that.
    const paintedMs = () => page.evaluate('performance.getEntriesByName("first-contentful-paint")[0]?.startTime');
    while (await paintedMs() === undefined) await page.waitForTimeout(50);
    times.push(await paintedMs());
    await context.close();
  }
  return { medianMs: median(times), worstMs: Math.max(...times) };
}

/** Runs in the page: stores a conversation as the page itself does. */
async function seed({ count, text }) {
  const opened = await new Promise((resolve, reject) => {
    const asked = globalThis.indexedDB.open('recua', 1);
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
  const transaction = opened.transaction(['conversations', 'messages'], 'readwrite');
  const nowMs = Date.now();
  transaction.objectStore('conversations').put({ id: 'long', title: 'long', named: true, pinned: false, createdMs: nowMs, changedMs: nowMs, model: 'builtin', second: '', settings: {}, chosen: {} });
  for (let at = 0; at < count; at++) {
    transaction.objectStore('messages').put({ id: `m${at}`, conversation: 'long', parent: at === 0 ? '' : `m${at - 1}`, role: at % 2 === 0 ? 'user' : 'assistant', content: at % 2 === 0 ? `Question ${at}` : text, finish: 'stop', createdMs: nowMs + at });
  }
  await new Promise((resolve) => { transaction.oncomplete = resolve; });
}

/** Runs in the page. */
async function scroll(px) {
  const { document, PerformanceObserver, requestAnimationFrame } = globalThis;
  const long = [];
  const frames = [];
  const observer = new PerformanceObserver((list) => long.push(...list.getEntries().map(({ duration }) => duration)));
  observer.observe({ entryTypes: ['longtask'] });
  const box = document.querySelector('.scroller');
  let lastMs = performance.now();
  for (const direction of [-1, 1]) {
    for (let step = 0; step < 300; step++) {
      box.scrollTop += direction * px;
      await new Promise(requestAnimationFrame);
      frames.push(performance.now() - lastMs);
      lastMs = performance.now();
    }
  }
  await new Promise((resolve) => setTimeout(resolve, 100));
  observer.disconnect();
  return { long, worstFrameMs: Math.max(...frames), shown: document.querySelectorAll('.message').length };
}

async function scrolling(browser, url) {
  const page = await browser.newPage();
  await page.goto(url);
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  await page.evaluate(seed, { count: messages, text: textOf(150) });
  // The list of chats is read when the page loads.
  await page.reload();
  await page.getByText('long', { exact: true }).click();
  await page.locator('.message').nth(50).waitFor({ state: 'attached' });
  const earlier = page.getByRole('button', { name: /^Show earlier messages/ });
  while (await earlier.count() > 0) {
    await earlier.click();
    await page.waitForTimeout(50);
  }
  await page.locator('.message').nth(messages - 1).waitFor({ state: 'attached' });
  await page.waitForTimeout(1_000);
  const result = await page.evaluate(scroll, scrollPx);
  await page.close();
  return result;
}

async function streaming(browser, url) {
  const page = await browser.newPage();
  await page.goto(url);
  const box = page.getByRole('textbox', { name: 'Message' });
  await box.fill('Go on.');
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Performance.enable');
  const seconds = async () => {
    const { metrics } = await devtools.send('Performance.getMetrics');
    return metrics.find(({ name }) => name === 'ProcessTime').value;
  };
  await page.waitForTimeout(500);
  await page.keyboard.press('Enter');
  await page.locator('article.answer .prose').waitFor();
  const before = await seconds();
  const startMs = performance.now();
  await page.waitForTimeout((streamSeconds - 2) * 1_000);
  const share = (await seconds() - before) / ((performance.now() - startMs) / 1_000);
  await page.close();
  return share;
}

function print(what, text, isMet) {
  console.log(`${what.padEnd(46)} ${text.padEnd(40)} ${isMet === undefined ? '' : isMet ? 'met' : 'missed'}`);
}

async function main() {
  const executablePath = findChromium();
  const { child, port } = await startRecua();
  const front = await startFront(port);
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
  try {
    const url = `http://127.0.0.1:${port}/`;
    const { files, firstKb, laterKb, pdfKb } = await sizes(browser, url);
    print(`First load, brotli (goal ${goals.firstLoadKb} kB)`, `${firstKb.toFixed(1)} kB in ${files} files`, firstKb <= goals.firstLoadKb);
    print('With code and formulas', `${(firstKb + laterKb).toFixed(1)} kB`, firstKb + laterKb <= goals.firstLoadKb);
    console.log(`The first PDF that somebody attaches brings ${pdfKb.toFixed(0)} kB more.`);
    const { medianMs, worstMs } = await firstPaint(browser, url, (page) => page.getByRole('textbox', { name: 'Message' }).waitFor());
    print(`First paint (goal ${goals.firstPaintMs} ms)`, `${medianMs.toFixed(0)} ms, at worst ${worstMs.toFixed(0)} of ${loads}`, medianMs < goals.firstPaintMs);
    const ofBlank = await firstPaint(browser, `${url}blank.html`, () => undefined);
    print('First paint of a page with one word', `${ofBlank.medianMs.toFixed(0)} ms, at worst ${ofBlank.worstMs.toFixed(0)} of ${loads}`);
    const { long, worstFrameMs, shown } = await scrolling(browser, url);
    print(`Scrolling ${shown} messages (goal no long task)`, `${long.length} long tasks, worst frame ${worstFrameMs.toFixed(0)} ms`, long.length <= goals.longTasks);
    const share = await streaming(browser, `http://127.0.0.1:${front.address().port}/`);
    print(`Streaming ${tokensPerSecond} tokens/s (goal ${goals.streamingShare * 100} % of a core)`, `${(share * 100).toFixed(1)} % of a core`, share < goals.streamingShare);
  } finally {
    await browser.close();
    front.closeAllConnections();
    front.close();
    child.kill('SIGTERM');
  }
}

await main();
