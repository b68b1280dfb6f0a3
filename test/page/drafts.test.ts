// What is written in the page and not sent: it stays when the view changes or the tab is loaded
// again.
import t from 'tap';
import type { Page } from 'playwright-core';
import { RecuaError } from '#recua/errors.js';
import { startApp, until } from '../server/app-under-test.js';
import { hang } from '../server/fake-engine.js';
import { deferred } from '../deferred.js';
import { attach, closeBrowsers, comesTrue, lastAnswer, missing, openPage, say, turnTo } from './browsers.js';

t.teardown(closeBrowsers);

const box = (page: Page) => page.getByRole('textbox', { name: 'Message' });
const tools = JSON.stringify([{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }]);

const isStored = `new Promise((resolve) => {
  const opened = indexedDB.open('recua');
  opened.onsuccess = () => {
    const all = opened.result.transaction('conversations').objectStore('conversations').getAll();
    all.onsuccess = () => resolve(all.result.some(({ settings }) => settings.system === 'Be terse.'));
  };
})`;

/** Whether an answer is in the browser's database. */
const isSaved = `new Promise((resolve) => {
  const opened = indexedDB.open('recua');
  opened.onsuccess = () => {
    const all = opened.result.transaction('messages').objectStore('messages').getAll();
    all.onsuccess = () => resolve(all.result.some(({ role }) => role === 'assistant'));
  };
})`;

for (const browser of ['chromium', 'firefox'] as const) {
  t.test(`a new message with its files survives a reload, in ${browser}`, { skip: missing(browser) }, async (t) => {
    const { url } = await startApp(t);
    const { page, complaints } = await openPage(t, browser, url);
    await box(page).fill('half a thought');
    await attach(page, 'notes.txt', 'apples');
    await page.reload();
    await page.getByRole('list', { name: 'Attached files' }).getByText('notes.txt').waitFor();
    t.equal(await box(page).inputValue(), 'half a thought');
    await box(page).press('Enter');
    await lastAnswer(page);
    await page.locator('article.user').getByText('half a thought').waitFor();
    await page.reload();
    await page.locator('article.user').getByText('half a thought').waitFor();
    t.equal(await box(page).inputValue(), '', 'what was sent does not come back');
    t.equal(await page.getByRole('list', { name: 'Attached files' }).count(), 0);
    t.strictSame(complaints, []);
  });
}

t.test('the Enter that ends a word being composed sends nothing', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await box(page).fill('日本');
  const key = { key: 'Enter', bubbles: true, cancelable: true };
  await box(page).dispatchEvent('keydown', { ...key, isComposing: true });
  // In Safari the composition has ended by then.
  await box(page).dispatchEvent('keydown', { ...key, keyCode: 229 });
  t.equal(await box(page).inputValue(), '日本');
  t.equal(engine.requests.length, 0);
  await box(page).press('Enter');
  await lastAnswer(page);
});

t.test('a message that does not fit comes back after a reload, too', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  engine.script = hang;
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'a very long story');
  await until(() => engine.requests.length === 1);
  await comesTrue(page, isSaved);
  engine.early = new RecuaError('context_length_exceeded', 'The prompt has 5000 tokens.');
  await page.reload();
  await page.getByRole('status').getByText('Not sent: The prompt has 5000 tokens.').waitFor();
  await page.locator('article').first().waitFor({ state: 'detached' });
  t.equal(await box(page).inputValue(), 'a very long story');
  t.strictSame(complaints, []);
});

t.test('each chat keeps its draft over a reload', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'apples');
  await lastAnswer(page);
  await box(page).fill('more about apples');
  await page.getByRole('button', { name: 'New chat' }).first().click();
  await page.getByRole('heading', { name: 'Start a chat' }).waitFor();
  await box(page).fill('pears');
  await page.reload();
  await page.getByRole('heading', { name: 'Start a chat' }).waitFor();
  t.equal(await box(page).inputValue(), 'pears');
  await page.getByRole('navigation', { name: 'Chats' }).getByRole('link', { name: 'apples' }).click();
  await lastAnswer(page);
  t.equal(await box(page).inputValue(), 'more about apples');
  await t.test('and another tab has its own', async (t) => {
    const other = await page.context().newPage();
    await other.goto(url);
    t.equal(await box(other).inputValue(), '');
  });
  t.strictSame(complaints, []);
});

t.test('what a hidden tab keeps stays if the browser discards it without a word', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await box(page).fill('half a thought');
  const kept = async (hidden: boolean): Promise<string> => await page.evaluate((now) => {
    Object.defineProperty(document, 'hidden', { get: () => now, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
    return JSON.stringify({ ...sessionStorage });
  }, hidden);
  t.match(await kept(true), 'half a thought');
  t.notMatch(await kept(false), 'half a thought', 'a copy of the tab does not get it');
});

t.test('a copy of a hidden tab writes a chat of its own', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await box(page).fill('half a thought');
  const kept = await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { get: () => true });
    document.dispatchEvent(new Event('visibilitychange'));
    return sessionStorage.getItem('drafts')!;
  });
  const copy = await page.context().newPage();
  await copy.addInitScript((drafts) => sessionStorage.setItem('drafts', drafts), kept);
  await copy.goto(url);
  await copy.getByRole('heading', { name: 'Start a chat' }).waitFor();
  t.equal(await box(copy).inputValue(), 'half a thought');
  for (const [tab, text] of [[page, 'apples'], [copy, 'pears']] as const) {
    await say(tab, text);
    await lastAnswer(tab);
  }
  await turnTo(copy);
  const list = copy.getByRole('navigation', { name: 'Chats' });
  await list.getByRole('link', { name: 'apples' }).waitFor();
  await list.getByRole('link', { name: 'pears' }).waitFor();
});

t.test('a hidden tab keeps a message that comes back', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { promise: refused, resolve: refuse } = deferred();
  engine.script = async function* () {
    await refused;
    throw new RecuaError('context_length_exceeded', 'Too long.');
    yield {};
  };
  const { page } = await openPage(t, 'chromium', url);
  await say(page, 'a long story');
  await until(() => engine.requests.length === 1);
  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { get: () => true });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  refuse();
  await comesTrue(page, 'JSON.stringify({ ...sessionStorage }).includes("a long story")');
});

t.test('files too large to keep over a reload are named', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await say(page, 'apples');
  await lastAnswer(page);
  await box(page).fill('see the files');
  for (const name of ['a.txt', 'b.txt', 'c.txt']) await attach(page, name, 'x'.repeat(4_000_000));
  await page.reload();
  await page.getByText('attach them again: a.txt, b.txt, c.txt.').waitFor();
  t.equal(await box(page).inputValue(), 'see the files');
});

t.test('a chat is shown at once, not after the box of a new one', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await say(page, 'apples');
  await lastAnswer(page);
  await page.addInitScript(`
    window.shown = [];
    new MutationObserver(() => {
      const box = document.querySelector('[aria-label=Message]');
      if (box) window.shown.push(document.querySelector('h1').textContent);
    }).observe(document, { childList: true, subtree: true });
  `);
  await page.reload();
  await lastAnswer(page);
  const shown: string[] = await page.evaluate('window.shown');
  t.ok(shown.length > 0);
  t.strictSame([...new Set(shown)], ['apples']);
});

t.test('an editor stays open with its text, in another view and over a reload', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'apples');
  await lastAnswer(page);
  const editor = page.locator('article.user').getByRole('textbox', { name: 'Text' });
  await page.getByRole('button', { name: 'Edit and resend' }).click();
  await editor.fill('apples and pears');
  await page.getByRole('link', { name: 'Now' }).click();
  await page.getByRole('heading', { name: 'Now' }).waitFor();
  await page.getByRole('link', { name: 'Chat' }).first().click();
  t.equal(await editor.inputValue(), 'apples and pears');
  await page.reload();
  t.equal(await editor.inputValue(), 'apples and pears');
  await editor.press('Control+Enter');
  await page.locator('article.user').getByText('apples and pears').waitFor();
  await lastAnswer(page);
  await page.reload();
  await lastAnswer(page);
  t.equal(await editor.count(), 0, 'what was sent is no longer edited');
  t.strictSame(complaints, []);
});

t.test('an editor and a question have the focus as soon as they are there', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await say(page, 'apples');
  await lastAnswer(page);
  const isFocusedAfter = (button: string): Promise<boolean> => page.evaluate(async (label) => {
    document.querySelector<HTMLElement>(`[aria-label="${label}"]`)!.click();
    // Before the browser paints.
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
    return document.activeElement!.closest('dialog, .editor') !== null;
  }, button);
  t.equal(await isFocusedAfter('Edit and resend'), true);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Actions for apples' }).click();
  t.equal(await isFocusedAfter('Rename'), true);
});

t.test('a tool result that is not submitted stays', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await page.getByRole('button', { name: 'Chat settings' }).click();
  const list = page.getByRole('textbox', { name: /^Tools/ });
  await page.locator('summary', { hasText: /^Tools/ }).click();
  await list.fill(tools);
  await list.blur();
  engine.script = async function* () {
    yield { toolCalls: [{ index: 0, id: 'call_1', name: 'weather', arguments: '{}' }] };
  };
  await say(page, 'the weather?');
  const result = page.getByRole('textbox', { name: 'Result of weather' });
  await result.fill('sunny, and');
  await page.reload();
  await result.waitFor();
  t.equal(await result.inputValue(), 'sunny, and');
});

t.test('a setting counts while it is typed', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await say(page, 'apples');
  await lastAnswer(page);
  await page.getByRole('button', { name: 'Chat settings' }).click();
  await page.getByRole('textbox', { name: /system/i }).pressSequentially('Be terse.');
  await comesTrue(page, isStored);
  await page.reload();
  await say(page, 'pears');
  await page.locator('article.answer').nth(1).locator('.numbers').waitFor();
  t.match(JSON.parse(engine.requests.at(-1)!.messages), [{ role: 'system', content: 'Be terse.' }]);
  await page.getByRole('button', { name: 'Chat settings' }).click();
  const temperature = page.getByRole('spinbutton', { name: 'Temperature' });
  await temperature.pressSequentially('-1');
  t.notOk(await page.getByRole('alert').isVisible(), 'no error while it is typed');
  await page.keyboard.press('Tab');
  await page.getByRole('alert').waitFor();
});

t.test('a new chat that is not sent keeps its settings with its draft', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  const sent = (): unknown => JSON.parse(engine.requests.at(-1)!.messages);
  await page.getByRole('button', { name: 'Chat settings' }).click();
  await page.getByRole('textbox', { name: /system/i }).fill('Be terse.');
  await page.reload();
  await page.getByRole('heading', { name: 'Start a chat' }).waitFor();
  await say(page, 'apples');
  await lastAnswer(page);
  t.match(sent(), [{ role: 'system', content: 'Be terse.' }, { content: 'apples' }]);

  await page.getByRole('button', { name: 'New chat' }).first().click();
  await page.getByRole('heading', { name: 'Start a chat' }).waitFor();
  await page.getByRole('button', { name: 'Chat settings' }).click();
  await page.getByRole('textbox', { name: /system/i }).fill('In French.');
  await box(page).fill('pears');
  await page.getByRole('navigation', { name: 'Chats' }).getByRole('link', { name: 'apples' }).click();
  await lastAnswer(page);
  await page.getByRole('button', { name: 'New chat' }).first().click();
  await page.getByRole('heading', { name: 'Start a chat' }).waitFor();
  t.equal(await box(page).inputValue(), 'pears');
  await box(page).press('Enter');
  await lastAnswer(page);
  t.match(sent(), [{ role: 'system', content: 'In French.' }, { content: 'pears' }]);

  await page.getByRole('button', { name: 'New chat' }).first().click();
  await page.getByRole('heading', { name: 'Start a chat' }).waitFor();
  await say(page, 'plums');
  await lastAnswer(page);
  t.match(sent(), [{ role: 'user', content: 'plums' }], 'the next one begins without');
  t.strictSame(complaints, []);
});

t.test('a message that waits for a model sends no draft of another chat', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'apples');
  await lastAnswer(page);
  await box(page).fill('half a thought');
  await page.getByRole('button', { name: 'New chat' }).first().click();
  await page.route('**/v1/models', (route) => route.fulfill({ status: 503, json: {} }));
  await page.reload();
  await page.getByText('Cannot list the models').waitFor();
  await say(page, 'hello');
  await page.getByRole('navigation', { name: 'Chats' }).getByRole('link', { name: 'apples' }).click();
  await lastAnswer(page);
  await page.waitForTimeout(300);
  t.equal(engine.requests.length, 1);
  t.equal(await box(page).inputValue(), 'half a thought');
  t.strictSame(complaints, []);
});

t.test('the browser asks before it leaves a draft that the tab has no room for', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  const asked: string[] = [];
  page.on('dialog', (dialog) => {
    asked.push(dialog.type());
    void dialog.accept();
  });
  await box(page).fill('short');
  await page.reload();
  t.equal(await box(page).inputValue(), 'short');
  await page.evaluate(`{
    let text = 'x'.repeat(2 ** 23);
    for (let at = 0; text !== ''; at++) try { sessionStorage.setItem('other ' + at, text); } catch { text = text.slice(0, text.length / 2); }
  }`);
  await box(page).fill('long '.repeat(2_000));
  await box(page).press('End');
  await page.reload();
  t.strictSame(asked, ['beforeunload']);
});
