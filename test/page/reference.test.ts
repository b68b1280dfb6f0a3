// The API reference in the page: every route of openapi.json, and requests sent from its forms.
import t from 'tap';
import { deferred } from '../deferred.js';
import { startApp, until } from '../server/app-under-test.js';
import { hang } from '../server/fake-engine.js';
import { closeBrowsers, missing, openPage } from './browsers.js';

t.teardown(closeBrowsers);

interface Described { paths: Record<string, Record<string, { operationId: string; summary: string }>> }

t.test('every route is listed with its fields, and can be tried', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', `${url}/#/api`);
  await page.getByText('/v1/chat/completions', { exact: true }).waitFor();
  const { paths } = await (await fetch(`${url}/openapi.json`)).json() as Described;
  const ids = new Set(Object.values(paths).flatMap((item) => Object.values(item).map(({ operationId }) => operationId.replace(/\d+$/, ''))));
  t.equal(await page.locator('details.route').count(), ids.size);

  const search = page.getByRole('searchbox', { name: 'Search routes' });
  await search.fill('tokens of a text');
  t.strictSame(await page.locator('details.route > summary code').allInnerTexts(), ['/tokenize']);
  await search.fill('no such route');
  await page.getByText('No route matches.').waitFor();
  await search.fill('/chat/completions');
  await page.getByText('/v1/chat/completions', { exact: true }).click();
  const route = page.locator('details.route[open]');
  await route.getByText('Also at /chat/completions').waitFor();
  await route.locator('dt').filter({ hasText: /^temperature / }).first().waitFor();
  await route.locator('dt').filter({ hasText: /^messages .*required/ }).first().waitFor();

  const form = page.getByRole('form', { name: 'Try POST /v1/chat/completions' });
  const answer = form.getByRole('region', { name: 'Server response' });
  await form.getByRole('button', { name: 'Send' }).click();
  await form.getByText(/^200 OK, /).waitFor();
  t.match(await answer.innerText(), /"object": "chat\.completion"/);
  t.equal(engine.requests.length, 1);
  t.match(await form.getByRole('textbox', { name: 'Body' }).inputValue(), /"model": "owner\/model"/, 'a model that this server has');
  const box = form.getByRole('textbox', { name: 'Body' });
  await box.fill('{"messages": [{"role": "user", "content": "hi"}], "stream": true}');
  await form.getByRole('button', { name: 'Send' }).click();
  await form.getByText('[DONE]').waitFor();
  await box.fill('{"messages": 7}');
  await form.getByRole('button', { name: 'Send' }).click();
  await form.getByText(/^400 /).waitFor();
  t.match(await answer.innerText(), /"code": "invalid_type"/);
  await box.fill('{');
  await form.getByRole('button', { name: 'Send' }).click();
  await form.getByText('Not sent').waitFor();
  t.equal(engine.requests.length, 2, 'what is no JSON is not sent');
  t.strictSame(complaints, []);
});

t.test('parameters can be filled in, and a deletion asks first', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page, asked } = await openPage(t, 'chromium', `${url}/#/api`);
  const search = page.getByRole('searchbox', { name: 'Search routes' });
  await search.fill('GET /v1/models/{id}');
  await page.getByText('/v1/models/{id}', { exact: true }).click();
  const form = page.getByRole('form', { name: 'Try GET /v1/models/{id}' });
  await form.getByRole('textbox').fill('owner/model');
  await form.getByRole('button', { name: 'Send' }).click();
  await form.getByText(/^200 OK, /).waitFor();
  t.match(await form.getByRole('region').innerText(), /"id": "owner\/model"/);
  await search.fill('Open a WebSocket');
  await page.getByText('/v1/responses', { exact: true }).click();
  await page.getByText('This route opens a WebSocket, which this form cannot do.').waitFor();
  await search.fill('DELETE /v1/files');
  await page.getByText('/v1/files/{id}', { exact: true }).click();
  const deletion = page.getByRole('form', { name: 'Try DELETE /v1/files/{id}' });
  await deletion.getByRole('textbox').fill('file-none');
  await deletion.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  t.notOk(asked.some((address) => address.includes('file-none')));
  await deletion.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Send' }).click();
  await deletion.getByText(/^404 /).waitFor();
  await search.fill('DELETE /sessions');
  await page.getByText('/sessions/{name}', { exact: true }).click();
  const removal = page.getByRole('form', { name: 'Try DELETE /sessions/{name}' });
  t.equal(await removal.getByLabel('If-Match').inputValue(), '*', 'a header that it must have');
});

t.test('Enter in a form whose request runs changes nothing', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', `${url}/#/api`);
  const { promise: mayAnswer, resolve: answer } = deferred();
  let asked = 0;
  await page.route('**/v1/models/owner%2Fmodel', async (route) => {
    asked++;
    await mayAnswer;
    await route.continue();
  });
  await page.getByRole('searchbox', { name: 'Search routes' }).fill('GET /v1/models/{id}');
  await page.getByText('/v1/models/{id}', { exact: true }).click();
  const form = page.getByRole('form', { name: 'Try GET /v1/models/{id}' });
  const field = form.getByRole('textbox');
  await field.fill('owner/model');
  await field.press('Enter');
  await form.getByRole('button', { name: 'Stop' }).waitFor();
  await field.press('Enter');
  answer();
  await form.getByText(/^200 OK, /).waitFor();
  t.equal(asked, 1);
  t.strictSame(complaints, []);
});

t.test('leaving the view ends the request of a form', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  engine.script = hang;
  const { page, complaints } = await openPage(t, 'chromium', `${url}/#/api`);
  await page.getByText('/v1/chat/completions', { exact: true }).click();
  const form = page.getByRole('form', { name: 'Try POST /v1/chat/completions' });
  await form.getByRole('textbox', { name: 'Body' }).fill('{"messages": [{"role": "user", "content": "hi"}], "stream": true}');
  await form.getByRole('button', { name: 'Send' }).click();
  await form.getByRole('button', { name: 'Stop' }).waitFor();
  await until(() => engine.running.size === 1);
  await page.getByRole('link', { name: 'Chat', exact: true }).click();
  await until(() => engine.running.size === 0);
  t.strictSame(complaints, []);
});
