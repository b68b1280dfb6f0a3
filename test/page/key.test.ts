// The page of a server that asks for an API key.
import t from 'tap';
import { startApp } from '../server/app-under-test.js';
import { closeBrowsers, lastAnswer, missing, openPage, say } from './browsers.js';

t.teardown(closeBrowsers);

t.test('the page asks for the key, and keeps it until the tab is closed', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t, { ui: true, apiKey: 'sesame' });
  t.equal((await fetch(`${url}/ui/requests`)).status, 401, 'what others asked is not open');
  const { page } = await openPage(t, 'chromium', url);
  const field = page.getByRole('textbox', { name: 'API key' });
  await field.or(page.locator('input[type=password]')).first().fill('k'.repeat(17_000));
  await page.getByRole('button', { name: 'Use key' }).click();
  await page.getByText('This API key is too long.').first().waitFor();
  await page.locator('input[type=password]').fill('ключ');
  await page.getByRole('button', { name: 'Use key' }).click();
  await page.getByText('letters of English').first().waitFor();
  await page.locator('input[type=password]').fill('guess');
  await page.getByRole('button', { name: 'Use key' }).click();
  await page.getByText('does not know this API key').first().waitFor();
  await page.locator('input[type=password]').fill('sesame');
  await page.getByRole('button', { name: 'Use key' }).click();
  await say(page, 'hello wide world');
  t.match(await lastAnswer(page), /hello wide world/);
  await page.getByRole('link', { name: 'API' }).click();
  for (const [language, key] of [['curl', '-H "Authorization: Bearer $RECUA_API_KEY"'], ['Python', 'api_key=os.environ["RECUA_API_KEY"]'], ['JavaScript', 'apiKey: process.env.RECUA_API_KEY']] as const) {
    await page.getByRole('tab', { name: language }).click();
    const code = await page.locator('#code').innerText();
    t.ok(code.includes(key), `${language}: ${code}`);
    t.notOk(code.includes('sesame'), 'the key itself is not shown');
  }
  await page.getByRole('link', { name: 'Chat' }).click();
  await page.reload();
  await say(page, 'once more');
  t.match(await lastAnswer(page), /once more/);
  t.strictSame(await page.evaluate('Object.keys(localStorage).filter((name) => /key/i.test(name))'), []);
});

t.test('a key that took long to find works at once', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t, { apiKey: 'sesame' });
  const { page } = await openPage(t, 'chromium', 'about:blank');
  await page.addInitScript('{ const { timeout } = AbortSignal; AbortSignal.timeout = (ms) => timeout.call(AbortSignal, ms / 20); }');
  await page.goto(url);
  const field = page.locator('input[type=password]');
  await field.waitFor();
  await page.waitForTimeout(4_000);
  await field.fill('sesame');
  const listed = page.waitForResponse((response) => response.url().endsWith('/v1/models') && response.ok(), { timeout: 5_000 });
  await page.keyboard.press('Enter');
  t.ok(await listed);
  t.equal(await page.getByRole('alert').count(), 0);
});

t.test('a key that no longer works is asked for again when the user acts', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t, { apiKey: 'sesame' });
  const { page } = await openPage(t, 'chromium', url);
  const field = page.locator('input[type=password]');
  await field.fill('sesame');
  await page.keyboard.press('Enter');
  await say(page, 'first');
  await lastAnswer(page);
  await page.evaluate(() => sessionStorage.setItem('apiKey', 'expired'));
  await field.waitFor();
  await page.keyboard.press('Escape');
  await page.waitForResponse((response) => response.url().endsWith('/v1/models') && response.status() === 401);
  t.equal(await field.count(), 0, 'not by what the page asks by itself');
  await say(page, 'hello wide world');
  await field.fill('sesame');
  await page.keyboard.press('Enter');
  await page.locator('article.answer').nth(1).locator('.numbers').waitFor();
  t.match(await lastAnswer(page), /hello wide world/);
});

t.test('who closes the question can enter the key later', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t, { ui: true, apiKey: 'sesame' });
  const { page } = await openPage(t, 'chromium', url);
  for (const view of ['Chat', 'Models', 'Now']) {
    await page.locator('input[type=password]').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: view }).click();
    await page.getByRole('button', { name: 'Enter API key' }).click();
  }
  await page.locator('input[type=password]').fill('sesame');
  await page.getByRole('button', { name: 'Use key' }).click();
  await page.getByRole('button', { name: 'Enter API key' }).waitFor({ state: 'detached' });
  t.equal(await page.getByRole('alert').count(), 0);
});
