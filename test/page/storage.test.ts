// The page in a browser that keeps nothing for it: cookies are blocked, or the disk is full.
import t from 'tap';
import { readFileSync } from 'node:fs';
import { startApp } from '../server/app-under-test.js';
import { act, closeBrowsers, comesTrue, lastAnswer, missing, openPage, say } from './browsers.js';

t.teardown(closeBrowsers);

const denied = `for (const name of ['localStorage', 'sessionStorage', 'indexedDB']) {
  Object.defineProperty(window, name, { get() { throw new DOMException('Access is denied.', 'SecurityError'); } });
}`;
const full = `for (const kind of [Storage.prototype, IDBObjectStore.prototype]) {
  kind.setItem = kind.put = () => { throw new DOMException('The quota has been exceeded.', 'QuotaExceededError'); };
}`;

t.test('a chat that cannot be read says so, and a database that was closed is opened again', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  engine.script = async function* () {
    await new Promise(setImmediate);
    yield { content: 'Well.' };
  };
  const { page, complaints } = await openPage(t, 'chromium', url);
  const list = page.getByRole('navigation', { name: 'Chats' });
  for (const text of ['first', 'second']) {
    await page.getByRole('button', { name: 'New chat' }).first().click();
    await say(page, text);
    await lastAnswer(page);
  }
  await page.evaluate(`{
    const { getAll } = IDBIndex.prototype;
    IDBIndex.prototype.getAll = function () {
      IDBIndex.prototype.getAll = getAll;
      throw new DOMException('The disk is broken.', 'UnknownError');
    };
  }`);
  await list.getByText('first').click();
  await page.getByText('Cannot read this chat: The disk is broken.').waitFor();
  // What is typed now goes into no other chat.
  await page.locator('article').first().waitFor({ state: 'detached' });
  await list.getByText('first').click();
  await page.locator('article.user').getByText('first').waitFor();

  // As a browser does whose user removes the data of sites.
  const session = await page.context().newCDPSession(page);
  await session.send('Storage.clearDataForOrigin', { origin: url, storageTypes: 'indexeddb' });
  await page.getByRole('button', { name: 'New chat' }).first().click();
  await say(page, 'third');
  await lastAnswer(page);
  await page.reload();
  await page.locator('article.user').getByText('third').waitFor();
  t.strictSame(complaints, []);
});

t.test('messages that could not be saved are exported, and saved with the next ones', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  engine.script = async function* () {
    await new Promise(setImmediate);
    yield { content: `Answer ${engine.requests.length}.` };
  };
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'first');
  await lastAnswer(page);
  await page.evaluate(`{
    const { put } = IDBObjectStore.prototype;
    IDBObjectStore.prototype.put = () => { throw new DOMException('The quota has been exceeded.', 'QuotaExceededError'); };
    window.makeRoom = () => { IDBObjectStore.prototype.put = put; };
  }`);
  await say(page, 'second');
  await page.locator('article.answer').nth(1).locator('.numbers').waitFor();
  await page.getByText('Not saved: ').waitFor();
  const entry = page.getByRole('navigation', { name: 'Chats' }).getByRole('listitem').first();
  const downloading = page.waitForEvent('download');
  await act(entry, 'Export as JSON');
  const { chats } = JSON.parse(readFileSync(await (await downloading).path(), 'utf8')) as { chats: { messages: { content: string }[] }[] };
  t.strictSame(chats[0]!.messages.map(({ content }) => content), ['first', 'Answer 1.', 'second', 'Answer 2.']);

  await page.getByRole('button', { name: 'New chat' }).first().click();
  await page.locator('article.user').first().waitFor({ state: 'detached' });
  await entry.getByRole('link').click();
  await page.locator('article.user').getByText('second').waitFor();
  await page.evaluate('makeRoom()');
  await say(page, 'third');
  await page.locator('article.answer').nth(2).locator('.numbers').waitFor();
  await page.reload();
  // Texts are drawn once they are near the window.
  for (const answer of [1, 2, 3]) await page.locator('article.answer').getByText(`Answer ${answer}.`).waitFor();
  t.match(await page.locator('article').allInnerTexts(), [/first/, /Answer 1/, /second/, /Answer 2/, /third/, /Answer 3/]);
  t.strictSame(complaints, []);
});

t.test('a chat that is read slowly does not replace the one that the user went back to', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  for (const text of ['first', 'second']) {
    await page.getByRole('button', { name: 'New chat' }).first().click();
    await say(page, text);
    await lastAnswer(page);
  }
  const address = page.url();
  await page.evaluate(`{
    const { getAll } = IDBIndex.prototype;
    IDBIndex.prototype.getAll = function (...given) {
      const slow = {};
      const request = getAll.apply(this, given);
      window.read = new Promise((resolve) => {
        request.onsuccess = () => setTimeout(() => {
          slow.result = request.result;
          slow.onsuccess();
          setTimeout(resolve, 100);
        }, 500);
      });
      return slow;
    };
  }`);
  await page.getByRole('navigation', { name: 'Chats' }).getByText('first').click();
  await comesTrue(page, 'window.read !== undefined');
  await page.goBack();
  await page.evaluate('read');
  t.equal(page.url(), address);
  t.equal(await page.locator('article.user').innerText(), 'second');
  t.strictSame(complaints, []);
});

const silent = 'IDBFactory.prototype.open = () => new EventTarget();';

for (const [name, script] of Object.entries({ denied, full, silent })) {
  t.test(`a chat works while storage is ${name}, and the key is asked for once`, { skip: missing('chromium') }, async (t) => {
    const { url, engine } = await startApp(t, { apiKey: 'secret' });
    engine.script = async function* () {
      await new Promise(setImmediate);
      yield { content: 'Well.' };
    };
    const { page, complaints } = await openPage(t, 'chromium', 'about:blank');
    await page.addInitScript(script);
    await page.goto(url);
    await page.getByRole('dialog').getByLabel('API key').fill('secret');
    await page.keyboard.press('Enter');
    for (const text of ['first', 'second']) {
      await say(page, text);
      await page.locator('article.user').getByText(text).waitFor();
      t.match(await lastAnswer(page), /^Well\./);
    }
    await page.getByText('Not saved: ').waitFor();
    t.equal(await page.getByRole('dialog').count(), 0);
    t.strictSame(complaints, []);
  });
}
