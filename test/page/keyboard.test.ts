// The page without a pointer: the focus stays where the user works. And the page without a window:
// what screen readers, the browser's search and a printer get of a long chat.
import t from 'tap';
import { startApp, until } from '../server/app-under-test.js';
import { FakeEngine, hang } from '../server/fake-engine.js';
import { deferred } from '../deferred.js';
import type { Page } from 'playwright-core';
import { attach, closeBrowsers, comesTrue, lastAnswer, missing, openPage, say } from './browsers.js';

t.teardown(closeBrowsers);

/** Focuses a control as the keyboard does, and presses Enter. */
async function press(page: Page, name: string, nth = -1): Promise<void> {
  const button = page.locator('main').getByRole('button', { name, exact: true }).nth(nth);
  await page.keyboard.press('Tab');
  await button.focus();
  await page.keyboard.press('Enter');
}

/** Waits until the element with this label has the focus. */
const focused = async (page: Page, label: string) => await comesTrue(page, `document.activeElement.getAttribute('aria-label') === ${JSON.stringify(label)}`);

for (const name of ['chromium', 'firefox'] as const) {
  t.test(`the focus does not fall out of the page in ${name}`, { skip: missing(name) }, async (t) => {
    const { url } = await startApp(t, {}, new FakeEngine());
    const { page, complaints } = await openPage(t, name, url);
    await say(page, 'one');
    await lastAnswer(page);
    await say(page, 'two');
    await page.locator('article.answer').nth(1).locator('.numbers').waitFor();

    await press(page, 'Edit and resend');
    await focused(page, 'Text');
    await page.keyboard.press('Escape');
    await focused(page, 'Edit and resend');
    await press(page, 'Edit answer');
    await focused(page, 'Text');
    await page.keyboard.press('Control+Enter');
    await focused(page, 'Edit answer');
    await press(page, 'Regenerate');
    await focused(page, 'Message');
    await lastAnswer(page);
    await press(page, 'Previous version');
    await page.locator('article.answer .branches').getByText('2/3').waitFor();
    await focused(page, 'Previous version');
    await page.keyboard.press('Enter');
    await page.locator('article.answer .branches').getByText('1/3').waitFor();
    await focused(page, 'Next version');
    await page.keyboard.press('Enter');
    await page.locator('article.answer .branches').getByText('2/3').waitFor();
    await focused(page, 'Next version');

    await press(page, 'Chat settings');
    await page.keyboard.press('Tab');
    await focused(page, 'Close settings');
    await page.keyboard.press('Tab');
    await page.keyboard.type('Be brief.');
    t.equal(await page.getByLabel('System prompt').inputValue(), 'Be brief.');
    await page.keyboard.press('Escape');
    await focused(page, 'Chat settings');

    const entry = page.getByRole('navigation', { name: 'Chats' }).getByRole('listitem');
    const more = entry.getByRole('button', { name: 'Actions for one', exact: true });
    await more.focus();
    await page.keyboard.press('Enter');
    await entry.getByRole('button', { name: 'Pin' }).focus();
    await page.keyboard.press('Escape');
    await focused(page, 'Actions for one');
    await page.keyboard.press('Enter');
    await entry.getByRole('button', { name: 'Pin' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Pinned' }).waitFor();
    await focused(page, 'Actions for one');

    await page.getByRole('button', { name: 'New chat' }).first().click();
    await say(page, 'three');
    await lastAnswer(page);
    await more.focus();
    await page.keyboard.press('Enter');
    await entry.getByRole('button', { name: 'Delete' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).focus();
    await page.keyboard.press('Enter');
    await more.waitFor({ state: 'detached' });
    await focused(page, 'Search chats');
    t.strictSame(complaints, []);
  });
}

t.test('a list that the pointer has left takes the focus from nobody', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'one');
  await lastAnswer(page);
  const entries = page.getByRole('navigation', { name: 'Chats' }).getByRole('listitem');
  await entries.getByRole('link').focus();
  await page.keyboard.press('Tab');
  await page.getByRole('heading', { name: 'Today' }).click();
  await comesTrue(page, 'document.activeElement === document.body');
  const other = await page.context().newPage();
  await other.goto(url);
  await say(other, 'two');
  await entries.nth(1).waitFor();
  await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))');
  t.equal(await page.evaluate('document.activeElement.tagName'), 'BODY');
  t.strictSame(complaints, []);
});

t.test('Send and Stop keep the focus', { skip: missing('chromium') }, async (t) => {
  const engine = new FakeEngine();
  const { url } = await startApp(t, {}, engine);
  const { page, complaints } = await openPage(t, 'chromium', url);
  engine.script = hang;
  await page.getByRole('textbox', { name: 'Message' }).fill('one');
  await press(page, 'Send');
  await focused(page, 'Stop');
  await page.keyboard.press('Enter');
  await focused(page, 'Send');
  t.strictSame(complaints, []);
});

t.test('a second click on Send stops nothing, and one on Stop sends nothing', { skip: missing('chromium') }, async (t) => {
  const engine = new FakeEngine();
  const { url } = await startApp(t, {}, engine);
  const { page } = await openPage(t, 'chromium', url);
  engine.script = hang;
  const box = page.getByRole('textbox', { name: 'Message' });
  await box.fill('one');
  await page.getByRole('button', { name: 'Send', exact: true }).dblclick({ delay: 60 });
  await box.fill('two');
  await until(() => engine.running.size === 1);
  await page.getByRole('button', { name: 'Stop', exact: true }).dblclick({ delay: 60 });
  await page.getByText('stopped').waitFor();
  t.equal(await box.inputValue(), 'two');
  t.equal(engine.requests.length, 1);
});

t.test('the end of an answer is told in its chat only', { skip: missing('chromium') }, async (t) => {
  const engine = new FakeEngine();
  const { url } = await startApp(t, {}, engine);
  const { page } = await openPage(t, 'chromium', url);
  const told = (text: string) => comesTrue(page, `document.querySelector('section > [aria-live]').textContent === ${JSON.stringify(text)}`);
  await say(page, 'first');
  await lastAnswer(page);
  await page.getByRole('button', { name: 'New chat' }).first().click();
  const { promise: held, resolve: release } = deferred();
  engine.script = async function* () {
    yield { content: 'One' };
    await held;
    yield { content: ' and two.' };
  };
  await say(page, 'second');
  await told('The model is answering.');
  const chats = page.getByRole('navigation', { name: 'Chats' });
  await chats.getByRole('link', { name: 'first' }).click();
  await told('');
  await chats.getByRole('link', { name: 'second' }).click();
  await told('The model is answering.');
  release();
  await told('The answer is complete. One and two.');
});

t.test('the whole text of a long chat is in the document, and on paper', { skip: missing('chromium') }, async (t) => {
  const engine = new FakeEngine();
  const { url } = await startApp(t, {}, engine);
  const { page, complaints } = await openPage(t, 'chromium', url);
  for (let at = 0; at < 8; at++) {
    engine.script = async function* () {
      yield { content: `**Answer ${at}**\n\n${'A line of it.\n\n'.repeat(60)}The end of ${at}.` };
    };
    await say(page, `question ${at}`);
    await page.locator('article.answer').nth(at).locator('.numbers').waitFor();
  }
  await page.reload();
  await page.locator('article.answer').last().locator('.prose strong').waitFor();
  const first = page.locator('article.answer').first();
  t.equal(await first.locator('strong').count(), 0, 'not drawn yet');
  t.match(await first.textContent(), /Answer 0[^]*The end of 0\./);
  const pdf = await page.pdf();
  t.equal(await first.locator('strong').count(), 1, 'drawn for the printer');
  await attach(page, 'chat.pdf', pdf, 'application/pdf');
  await say(page, 'What does it say?');
  await page.locator('article.answer').nth(8).waitFor();
  const text = (JSON.parse(engine.requests.at(-1)!.messages) as { content: string }[]).at(-1)!.content;
  for (let at = 0; at < 8; at++) for (const part of [`question ${at}`, `Answer ${at}`, `The end of ${at}.`]) t.match(text, part);
  t.equal(text.split('A line of it.').length - 1, 480);
  t.notMatch(text, /Search|New chat|Chat settings|Recua/);
  t.strictSame(complaints, []);
});
