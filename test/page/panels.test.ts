// Models, Now and API, and what assistive technology finds of all views.
import t from 'tap';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import type { ModelShelf } from '#recua/server/http/shelf.js';
import { RecuaError } from '#recua/errors.js';
import { FakeEngine } from '../server/fake-engine.js';
import { startReal } from '../server/real-app.js';
import { startApp } from '../server/app-under-test.js';
import { closeBrowsers, lastAnswer, missing, openPage, say } from './browsers.js';

t.teardown(closeBrowsers);

t.test('Now shows what runs and what was asked', { skip: missing('chromium') }, async (t) => {
  const { url } = await startReal(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'Hello');
  await lastAnswer(page);
  await page.getByRole('link', { name: 'Now' }).click();
  const requests = page.getByRole('region', { name: 'Last requests' });
  await requests.getByText('POST /v1/chat/completions').waitFor();
  t.match(await requests.getByRole('row').nth(1).innerText(), /200\s+\d+\s+\d+\s+[\d.]+ m?s\s+req_/);
  t.match(await page.locator('.figures').innerText(), /Requests since the start\s+[1-9]/);
  t.equal(await page.locator('.curve polyline').count(), 3);
  await page.getByRole('region', { name: 'Models at work' }).getByRole('img', { name: /0 of 2 busy/ }).waitFor();
  t.strictSame(complaints, []);
});

t.test('Models are pulled with progress, and deleted after a question', { skip: missing('chromium') }, async (t) => {
  const removed: string[] = [];
  let finish = (): void => undefined;
  const held = new Promise<void>((resolve) => (finish = resolve));
  const file = { digest: 'sha256:abcdef0123456789', totalBytes: 4 * 2 ** 20 };
  const shelf: ModelShelf = {
    open: async (name) => {
      if (name !== 'owner/repo:Q4_K_M') throw new RecuaError('model_not_found', `There is no ${name} on the hub.`);
      return { files: [file], run: async (told) => { told(file, 2 ** 20); await held; told(file, file.totalBytes); } };
    },
    remove: async (name) => void removed.push(name),
    copy: async () => undefined,
    describe: async () => undefined,
  };
  const { url } = await startApp(t, {}, new FakeEngine(), { shelf });
  const { page, complaints } = await openPage(t, 'chromium', `${url}/#/models`);
  const table = page.getByRole('region', { name: 'Models of this server' });
  t.match(await table.getByRole('row').nth(1).innerText(), /owner\/model pinned\s+loaded/);

  const field = page.getByRole('textbox', { name: 'Model of the hub' });
  await field.fill('owner/none');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('There is no owner/none on the hub.').waitFor();
  await field.fill('owner/repo:Q4_K_M');
  await page.keyboard.press('Enter');
  await page.getByText('1.0 MiB of 4.0 MiB, 25 %').waitFor();
  finish();
  await page.getByText('owner/repo:Q4_K_M is here').waitFor();

  await table.getByRole('button', { name: 'Delete owner/model' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  t.strictSame(removed, []);
  await table.getByRole('button', { name: 'Delete owner/model' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('owner/model is deleted').waitFor();
  t.strictSame(removed, ['owner/model']);
  t.strictSame(complaints, []);
});

t.test('API shows the chat on screen as code that is the request', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await say(page, "It's $HOME");
  await lastAnswer(page);
  await page.getByRole('link', { name: 'API' }).click();
  const code = page.getByRole('tabpanel').locator('pre');
  const curl = await code.innerText();
  t.match(curl, `curl -N ${url}/v1/chat/completions`);
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

/** What axe finds that keeps somebody out. */
async function seriousOf(page: Page): Promise<string[]> {
  // The policy of the page lets no script in; a debugger is not asked.
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
    await page.getByRole('button', { name: 'Settings of this chat' }).click();
    await page.getByText('Thoughts').click();
    t.strictSame(await seriousOf(page), [], 'a chat with its settings');
    for (const name of ['Models', 'Now', 'API']) {
      await page.getByRole('link', { name, exact: true }).click();
      await page.getByRole('heading', { name, level: 1 }).waitFor();
      t.strictSame(await seriousOf(page), [], name);
    }
  });
}

t.test('everything is reached by the keyboard, on a phone too', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url, { viewport: { width: 380, height: 700 } });
  t.equal(await page.evaluate('document.documentElement.scrollWidth'), 380, 'nothing is cut off at the side');
  await page.keyboard.press('Tab');
  const reached = new Set<string>();
  for (let at = 0; at < 15; at++) {
    reached.add(String(await page.evaluate('document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent')));
    await page.keyboard.press('Tab');
  }
  for (const name of ['Menu', 'New chat', 'Settings of this chat', 'Message', 'Attach files of text']) t.ok(reached.has(name), name);
  t.notOk(reached.has('Search conversations'), 'the menu is closed');
  await page.getByRole('button', { name: 'Menu' }).press('Enter');
  await page.getByRole('link', { name: 'Models' }).press('Enter');
  await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor();
  t.equal(await page.evaluate('document.documentElement.scrollWidth'), 380);
});
