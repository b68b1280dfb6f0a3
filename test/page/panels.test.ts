// Models, Now and API, and accessibility of all views.
import t from 'tap';
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import type { Page } from 'playwright-core';
import { startReal } from '../server/real-app.js';
import { post, startApp, until } from '../server/app-under-test.js';
import { closeBrowsers, lastAnswer, missing, openPage, say } from './browsers.js';

t.teardown(closeBrowsers);

t.test('Now shows running models and recent requests', { skip: missing('chromium') }, async (t) => {
  const { url } = await startReal(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'Hello');
  await lastAnswer(page);
  await page.getByRole('link', { name: 'Now' }).click();
  const requests = page.getByRole('region', { name: 'Recent requests' });
  await requests.getByText('POST /v1/chat/completions').waitFor();
  t.match(await requests.getByRole('row').nth(1).innerText(), /200\s+\d+\s+\d+\s+[\d.]+ m?s\s+req_/);
  await page.locator('.figures').filter({ hasText: /Requests so far\s*[1-9]/ }).waitFor();
  await page.locator('.curve polyline').nth(4).waitFor({ state: 'attached' });
  t.equal(await page.locator('.curve polyline').count(), 5);
  for (const label of ['First token', 'Cached']) await page.getByRole('img', { name: `${label}: now –` }).waitFor();
  await (await post(`${url}/v1/chat/completions`, { messages: [{ role: 'user', content: 'Hello again' }], max_tokens: 4 })).text();
  await page.getByRole('img', { name: /^First token: now [1-9]/ }).waitFor();
  await page.getByRole('img', { name: /^Cached: now \d+ %/ }).waitFor();
  await page.getByRole('region', { name: 'Active models' }).getByRole('img', { name: /0 of 2 busy/ }).waitFor();
  t.strictSame(complaints, []);
});

t.test('API shows the current chat as code that sends the same request', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await say(page, "It's $HOME");
  await lastAnswer(page);
  await page.getByRole('link', { name: 'API' }).click();
  const code = page.getByRole('tabpanel').locator('pre');
  const curl = await code.innerText();
  t.match(curl, `curl -N '${url}/v1/chat/completions'`);
  const body = JSON.parse(/-d '([^]*)'$/.exec(curl)![1].replaceAll("'\\''", "'"));
  t.match(body, { model: 'owner/model', messages: [{ role: 'user', content: "It's $HOME" }], stream: true });
  const answer = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  t.match(await answer.text(), /\[DONE\]/);
  t.equal(engine.requests.length, 2);
  await page.getByRole('tab', { name: 'curl' }).focus();
  await page.keyboard.press('ArrowRight');
  t.match(await code.innerText(), /base_url=".*\/v1"[^]*stream=True/);
  await page.keyboard.press('ArrowRight');
  t.match(await code.innerText(), /import OpenAI from 'openai'/);
  t.equal(await page.getByRole('link', { name: 'openapi.json' }).getAttribute('href'), `${url}/openapi.json`);
});

t.test('the curl line of a long chat runs in a shell', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  const long = "It's é. ".repeat(20_000);
  await say(page, long);
  await lastAnswer(page);
  await page.getByRole('link', { name: 'API' }).click();
  const curl = await page.getByRole('tabpanel').locator('pre').innerText();
  const shell = spawn('bash', ['-s'], { stdio: ['pipe', 'pipe', 'inherit'] });
  shell.stdin.end(curl);
  t.match(await text(shell.stdout), /\[DONE\]/);
  t.equal(engine.requests.length, 2);
  t.equal(engine.requests[1]!.messages, engine.requests[0]!.messages);
});

t.test('Now has a row for each answer in progress, and its client notices nothing', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startReal(t, '', { contextSize: 16_384 });
  const { page, complaints } = await openPage(t, 'chromium', `${url}/#/now`);
  await page.getByRole('heading', { name: 'Answers in progress' }).waitFor();
  await (await fetch(`${url}/ui/running`)).text();
  const body = JSON.stringify({ prompt: 'hello', max_tokens: 15_000, ignore_eos: true, stream: true });
  const stop = new AbortController();
  const answers = await Promise.all([1, 2].map(() => fetch(`${url}/v1/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body, signal: stop.signal })));
  const rows = page.getByRole('region', { name: 'Answers in progress' }).getByRole('row');
  const generating = rows.filter({ hasText: /generating.* tok\/s/ });
  await generating.nth(1).waitFor();
  t.match(await generating.first().innerText(), /owner\/model\s+generating\s+[\d,]+ of [\d,]+\s+\d+\s+[\d,]+\s+[\d.,]+ tok\/s\s+[\d.]+ m?s\s+req_/);
  const { data } = await (await fetch(`${url}/ui/running`)).json();
  t.equal(data.length, 2);
  t.ok(
    data.every(
      (one: { generated: number; promptRead: number; promptTokens: number }) => one.generated > 0 && one.promptRead === one.promptTokens,
    ),
  );
  const text = new TextDecoder().decode((await answers[0]!.body!.getReader().read()).value);
  t.notMatch(text, /progress|timings/, 'a client is told what it asked for');
  stop.abort();
  await until(() => engine.state.state === 'ready' && engine.state.status.running === 0);
  await page.getByText('None.', { exact: true }).waitFor();
  const ended = page.getByRole('region', { name: 'Recent requests' }).getByRole('row', { name: /stopped/ });
  await ended.nth(1).waitFor();
  t.match(await ended.first().innerText(), /\/v1\/completions\s+owner\/model\s+stopped\s+\d+\s+[\d,]+\s/);
  t.equal(await ended.locator('.warn').count(), 0);
  t.strictSame((await (await fetch(`${url}/ui/running`)).json()).data, []);
  t.strictSame(complaints, []);
});

t.test('Now shows the server settings, and no secrets', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t, { apiKey: 'sesame', temperature: 0.25, apiKeyFile: '', slotSavePath: t.testdir({}), traces: 'http://me:pass@127.0.0.1:1/' });
  t.equal((await fetch(`${url}/ui/settings`)).status, 401);
  const told = await (await fetch(`${url}/ui/settings`, { headers: { authorization: 'Bearer sesame' } })).text();
  t.notMatch(told, /sesame|pass@/);
  t.notOk(told.includes(t.testdirName), 'nor paths');
  const valueOf = (flag: string) => JSON.parse(told).data.find(({ name }: { name: string }) => name === flag).value;
  t.strictSame(['--no-ui', '--no-mmap', '--mlock'].map(valueOf), ['off', 'off', 'off']);
  t.match(JSON.parse(told).data.find(({ name }: { name: string }) => name === '--api-key'), { value: 'set', isDefault: false });
  const { page, complaints } = await openPage(t, 'chromium', `${url}/#/now`);
  await page.locator('input[type=password]').fill('sesame');
  await page.getByRole('button', { name: 'Use key' }).click();
  await page.route('**/ui/settings', (route) => route.abort(), { times: 1 });
  await page.getByText('Server settings').click();
  const error = page.getByRole('alert').getByText('Cannot reach the server');
  await error.waitFor();
  for (let clicks = 0; clicks < 2; clicks++) await page.getByText('Server settings').click();
  await error.waitFor({ state: 'detached' });
  const table = page.getByRole('region', { name: 'Server settings' });
  await table.getByRole('row', { name: /--temp 0\.25/ }).waitFor();
  t.match(await table.getByRole('row', { name: /--api-key / }).innerText(), /--api-key\s+set\s/);
  t.notMatch(await page.locator('body').innerText(), 'sesame');
  t.strictSame(complaints.filter((text) => !text.includes('net::ERR_FAILED')), []);
});

/** The serious accessibility problems that axe finds. */
async function seriousOf(page: Page): Promise<string[]> {
  // The policy of the page blocks scripts, except from a debugger.
  await page.evaluate(readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'));
  const { violations, passes } = await page.evaluate('axe.run()') as { passes: unknown[]; violations: { id: string; impact: string; nodes: { html: string; failureSummary: string }[] }[] };
  if (passes.length < 10) throw new Error('axe looked at nothing');
  return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html.slice(0, 200)} ${failureSummary}`).join('; ')}`);
}

for (const colorScheme of ['light', 'dark'] as const) {
  t.test(`axe finds nothing serious in ${colorScheme}`, { skip: missing('chromium') }, async (t) => {
    const { url, engine } = await startApp(t);
    const { page } = await openPage(t, 'chromium', url, { colorScheme, reducedMotion: 'reduce' });
    t.strictSame(await seriousOf(page), [], 'an empty chat');
    engine.script = async function* () {
      yield { reasoning: 'Well.' };
      yield { content: '# Head\n\n```js\n// a comment\nconst a = "b" + 1;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quote\n\n- [ ] task\n\nSum $x^2$ and [link](https://example.org).' };
      yield { toolCalls: [{ index: 0, id: 'call_1', name: 'weather', arguments: '{}' }] };
    };
    await say(page, 'everything');
    await lastAnswer(page);
    await page.locator('.hl-keyword').first().waitFor();
    await page.getByRole('button', { name: 'Chat settings' }).click();
    await page.getByText('Thoughts').click();
    t.strictSame(await seriousOf(page), [], 'a chat with its settings');
    for (const name of ['Models', 'Now', 'API']) {
      await page.getByRole('link', { name, exact: true }).click();
      await page.getByRole('heading', { name, level: 1 }).waitFor();
      if (name === 'Now') {
        await page.getByText('Server settings').click();
        await page.getByRole('region', { name: 'Server settings' }).waitFor();
      }
      if (name === 'API') {
        await page.getByText('/tokenize', { exact: true }).click();
        await page.getByRole('button', { name: 'Send' }).click();
        await page.getByRole('region', { name: 'Server response' }).waitFor();
      }
      t.strictSame(await seriousOf(page), [], name);
    }
  });
}

t.test('the keyboard reaches everything, on a phone too', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url, { viewport: { width: 380, height: 700 } });
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  t.equal(await page.evaluate('document.documentElement.scrollWidth'), 380, 'nothing is cut off at the side');
  await page.keyboard.press('Tab');
  const reached = new Set<string>();
  for (let at = 0; at < 30; at++) {
    reached.add(String(await page.evaluate('document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent')));
    await page.keyboard.press('Tab');
  }
  for (const name of ['Menu', 'New chat', 'Chat settings', 'Message', 'Attach PDFs or text files']) t.ok(reached.has(name), name);
  t.notOk(reached.has('Search chats'), 'the menu is closed');
  await page.getByRole('button', { name: 'Chat settings' }).press('Enter');
  const [settings, menu] = [page.getByRole('complementary', { name: 'Chat settings' }), page.getByRole('button', { name: 'Menu' })];
  await settings.waitFor();
  await menu.press('Enter');
  await page.keyboard.press('Escape');
  t.equal(await menu.getAttribute('aria-expanded'), 'false', 'Escape closes what opened last');
  t.ok(await settings.isVisible());
  await page.keyboard.press('Escape');
  await settings.waitFor({ state: 'detached' });
  await menu.press('Enter');
  await page.getByRole('link', { name: 'Models' }).press('Enter');
  await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor();
  t.equal(await page.evaluate('document.documentElement.scrollWidth'), 380);
});
