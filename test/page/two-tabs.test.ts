// What two tabs of the page set in one chat.
import t, { type Test } from 'tap';
import { RecuaError } from '#recua/errors.js';
import { startApp, until } from '../server/app-under-test.js';
import { echo } from '../server/fake-engine.js';
import { deferred } from '../deferred.js';
import { act, closeBrowsers, comesTrue, lastAnswer, missing, openPage, say, turnTo } from './browsers.js';
import type { Locator, Page } from 'playwright-core';

t.teardown(closeBrowsers);

const listed = (page: Page, title: string): Locator => page.getByRole('navigation', { name: 'Chats' }).getByRole('listitem').filter({ hasText: title });

/** Browsers offer no locks to a page that came over plain HTTP from another machine. */
const withoutLocks = 'Object.defineProperty(Navigator.prototype, "locks", { value: undefined })';
/** The page does not wait for what a tab may have left that long ago. */
const hoursLater = '{ const { now } = Date; Date.now = () => now() + 7_200_000; }';

async function actOn(page: Page, title: string, action: string): Promise<void> {
  await page.bringToFront();
  await act(listed(page, title), action);
}

async function rename(page: Page, title: string, to: string): Promise<void> {
  await actOn(page, title, 'Rename');
  await page.getByRole('dialog').getByRole('textbox').fill(to);
  await page.keyboard.press('Enter');
  await listed(page, to).waitFor();
}

/** A tab whose answer stops in the middle, until `fail` ends it with an error. */
async function failingAnswer(t: Test) {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  const { promise: failed, resolve: fail } = deferred();
  t.teardown(fail);
  engine.script = async function* () {
    yield { content: 'The first half' };
    await failed;
    throw new RecuaError('model_crashed', 'It crashed.');
  };
  await say(page, 'first');
  await page.locator('article.answer .prose').getByText('The first half').waitFor();
  return { url, engine, page, complaints, fail };
}

/** Two tabs of one chat. The next answer stops in the middle until `finish` is called. */
async function twoWindows(t: Test) {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'first');
  await lastAnswer(page);
  const other = await page.context().newPage();
  await other.goto(page.url());
  await lastAnswer(other);

  const { promise: finished, resolve: finish } = deferred();
  engine.script = async function* () {
    yield { content: 'The first half' };
    await finished;
    yield { content: ' and the second.' };
  };
  return { engine, page, other, complaints, finish };
}

t.test('what one tab sets in a chat stays when another one writes into it', { skip: missing('chromium') }, async (t) => {
  const { engine, page, other, complaints, finish } = await twoWindows(t);
  await say(page, 'second');
  await page.locator('article.answer .prose').getByText('The first half').waitFor();
  await rename(other, 'first', 'Fruit');
  await actOn(other, 'Fruit', 'Pin');
  await other.getByRole('button', { name: 'Chat settings' }).click();
  const system = other.getByRole('textbox', { name: /system/i });
  await system.fill('Be terse.');
  await system.blur();
  finish();
  await page.locator('article.answer .prose').getByText('The first half and the second.').waitFor();
  await page.locator('article.answer').last().locator('.numbers').waitFor();

  await t.test('the tab that wrote shows and sends it', async (t) => {
    await turnTo(page);
    await listed(page, 'Fruit').waitFor();
    await page.getByRole('button', { name: 'Chat settings', pressed: true }).waitFor();
    await say(page, 'third');
    await until(() => engine.requests.length === 3);
    t.match(JSON.parse(engine.requests.at(-1)!.messages), [{ role: 'system', content: 'Be terse.' }]);
  });
  await t.test('and so does a reload', async () => {
    await page.reload();
    await page.getByRole('heading', { name: 'Pinned' }).waitFor();
    await listed(page, 'Fruit').waitFor();
  });
  t.strictSame(complaints, []);
});

t.test('a tab that is looked at again lists the chats of another', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  const other = await page.context().newPage();
  await other.goto(url);
  await say(page, 'apples');
  await lastAnswer(page);
  await other.bringToFront();
  await turnTo(other);
  await listed(other, 'apples').click();
  await lastAnswer(other);
  await actOn(page, 'apples', 'Delete');
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await listed(page, 'apples').waitFor({ state: 'detached' });
  await turnTo(other);
  await listed(other, 'apples').waitFor({ state: 'detached' });
  t.equal(await other.locator('article.user').innerText(), 'apples', 'what is shown can still be copied');
  t.strictSame(complaints, []);
});

t.test('two windows of one chat show the same, also while an answer grows', { skip: missing('chromium') }, async (t) => {
  const { engine, page, other, complaints, finish } = await twoWindows(t);
  await say(page, 'second');
  const shown = (text: string): Locator => other.locator('article.answer .prose').getByText(text, { exact: true });
  await shown('The first half').waitFor();
  t.equal(await other.locator('article.user').last().innerText(), 'second');
  await say(other, 'third');
  await other.getByText('Another tab is writing this answer.').waitFor();
  finish();
  await shown('The first half and the second.').waitFor();
  await other.locator('article.answer').nth(1).locator('.numbers').waitFor();
  t.equal(engine.requests.length, 2, 'only the tab that was asked writes');
  await other.keyboard.press('Enter');
  await shown('The first half and the second.').nth(1).waitFor();
  await page.locator('article.user').nth(2).waitFor();
  t.strictSame(complaints, []);
});

t.test('a tab in which a chat was just opened adds nothing to half an answer', { skip: missing('chromium') }, async (t) => {
  const { engine, page, other, complaints, finish } = await twoWindows(t);
  await say(page, 'second');
  await other.locator('article.answer .prose').getByText('The first half').waitFor();
  // The browser takes long to give it a lock, or to refuse.
  await other.addInitScript(`{
    const { request } = LockManager.prototype;
    LockManager.prototype.request = async function (...given) {
      if (given[1].ifAvailable) await new Promise((resolve) => setTimeout(resolve, 3_000));
      return await request.apply(this, given);
    };
  }`);
  await other.reload();
  await say(other, 'third');
  await other.getByText('Another tab is writing this answer.').waitFor();
  t.equal(await other.locator('article.user').count(), 2);
  finish();
  await other.locator('article.answer .prose').getByText('The first half and the second.').waitFor();
  t.equal(engine.requests.length, 2);
  t.strictSame(complaints, []);
});

t.test('nor does one that cannot know yet, without locks', { skip: missing('chromium') }, async (t) => {
  const { engine, page, other, complaints, finish } = await twoWindows(t);
  await page.context().addInitScript(withoutLocks);
  for (const tab of [page, other]) await tab.reload();
  await say(page, 'second');
  await page.locator('article.answer .prose').getByText('The first half').waitFor();
  // The reply of the tab that writes takes long.
  await other.addInitScript('{ const { setTimeout } = window; window.setTimeout = (work, ms) => setTimeout(work, ms === 1000 ? 5000 : ms); }');
  await other.reload();
  await other.locator('article.answer .prose').getByText('The first half').waitFor();
  await say(other, 'third');
  await other.getByText('Another tab is writing this answer.').waitFor();
  t.equal(await other.locator('article.user').count(), 2);
  finish();
  await other.locator('article.answer .prose').getByText('The first half and the second.').waitFor();
  t.equal(engine.requests.length, 2);
  t.strictSame(complaints, []);
});

for (const end of ['has failed', 'was left hours ago']) t.test(`a chat that was exported while another tab wrote its answer goes on after that ${end}`, { skip: missing('chromium') }, async (t) => {
  const { url, engine, page, complaints, fail } = await failingAnswer(t);
  const other = await page.context().newPage();
  await other.goto(url);
  await Promise.all([other.waitForEvent('download'), actOn(other, 'first', 'Export as JSON')]);
  if (end === 'has failed') {
    fail();
    await page.getByRole('alert').getByText('It crashed.').waitFor();
  } else {
    await page.goto('about:blank');
    await other.evaluate(hoursLater);
  }
  await comesTrue(other, 'navigator.locks.query().then(({ held }) => held.length === 0)');
  await listed(other, 'first').getByRole('link').click();
  await other.locator('article.answer').waitFor();
  engine.script = async function* () {
    await new Promise(setImmediate);
    yield { content: 'Fine.' };
  };
  await say(other, 'second');
  await other.locator('article.answer .prose').getByText('Fine.').waitFor();
  t.strictSame(complaints, []);
});

t.test('a message is sent as soon as the answer of another tab is whole', { skip: missing('chromium') }, async (t) => {
  const { page, other, complaints, finish } = await twoWindows(t);
  // It is slow to give back its lock.
  await page.evaluate(`{
    const { request } = LockManager.prototype;
    LockManager.prototype.request = function (name, work) {
      return request.call(this, name, () => new Promise(() => undefined));
    };
  }`);
  await say(page, 'second');
  await other.locator('article.answer .prose').getByText('The first half').waitFor();
  await say(other, 'third');
  await other.getByText('Another tab is writing this answer.').waitFor();
  finish();
  await other.locator('article.answer .prose').getByText('The first half and the second.').waitFor();
  await other.keyboard.press('Enter');
  await other.locator('article.user').getByText('third').waitFor();
  t.strictSame(complaints, []);
});

t.test('a tab that left a chat and came back goes on with the answer of a closed one', { skip: missing('chromium') }, async (t) => {
  const { engine, page, other, complaints } = await twoWindows(t);
  await say(page, 'second');
  await other.locator('article.answer .prose').getByText('The first half').waitFor();
  const chat = other.url();
  await other.getByRole('button', { name: 'New chat' }).first().click();
  await other.getByRole('heading', { name: 'Start a chat' }).waitFor();
  await listed(other, 'first').click();
  await other.locator('article.answer .prose').getByText('The first half').waitFor();
  t.equal(other.url(), chat);
  engine.script = async function* () {
    await new Promise(setImmediate);
    yield { content: ' and the rest.' };
  };
  await page.goto('about:blank');
  await turnTo(other);
  await other.locator('article.answer .prose').getByText('The first half and the rest.').waitFor();
  t.strictSame(complaints, []);
});

t.test('a version that one tab chose of a new answer is shown in the other, and stays', { skip: missing('chromium') }, async (t) => {
  const { engine, page, other, complaints } = await twoWindows(t);
  engine.script = async function* () {
    await new Promise(setImmediate);
    yield { content: `Answer ${engine.requests.length}.` };
  };
  // The other one sees nothing of this yet.
  await other.evaluate('Object.defineProperty(document, "hidden", { configurable: true, value: true })');
  await say(page, 'second');
  await page.locator('article.answer').nth(1).locator('.numbers').waitFor();
  await page.getByRole('button', { name: 'Regenerate' }).last().click();
  await page.locator('article.answer .prose').getByText('Answer 3.').waitFor();
  await page.locator('article.answer').nth(1).locator('.numbers').waitFor();
  await page.getByRole('button', { name: 'Previous version' }).click();
  const shown = (tab: Page): Locator => tab.locator('article.answer .prose').getByText('Answer 2.');
  await shown(page).waitFor();
  await other.evaluate('delete document.hidden');
  await turnTo(other);
  await shown(other).waitFor();
  await actOn(other, 'first', 'Pin');
  await turnTo(page);
  await page.reload();
  await shown(page).waitFor();
  t.strictSame(complaints, []);
});

t.test('what one tab adds to a chat that was on the server stays when another pins it', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  // As after its file was read: nothing is shown after the file's last message.
  const conversation = { title: 'cusco', model: 'owner/model', chosen: { '': 'u', u: 'a', a: '' } };
  const messages = [{ id: 'u', parent: '', role: 'user', content: 'Hi' }, { id: 'a', parent: 'u', role: 'assistant', content: 'Hello', finish: 'stop' }];
  await page.getByLabel('File to import').setInputFiles({ name: 'chats.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify({ format: 'recua-chats', version: 1, chats: [{ conversation, messages }] })) });
  await listed(page, 'cusco').click();
  await page.locator('article.answer').getByText('Hello').waitFor();
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.locator('article.answer').getByText('Hello').waitFor();
  await page.bringToFront();
  await say(page, 'And Lima?');
  await page.locator('article.answer').nth(1).locator('.numbers').waitFor();
  await actOn(other, 'cusco', 'Pin');
  await turnTo(other);
  await other.locator('article.user').getByText('And Lima?').waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'Pinned' }).waitFor();
  await page.locator('article.user').getByText('And Lima?').waitFor();
  t.strictSame(complaints, []);
});

t.test('a message that one tab takes back loses nothing of another', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'first');
  await lastAnswer(page);
  const other = await page.context().newPage();
  const refuseLater = (): (() => void) => {
    const { promise: refused, resolve: refuse } = deferred();
    engine.script = async function* () {
      await refused;
      throw new RecuaError('context_length_exceeded', 'The prompt has 9000 tokens.');
    };
    return refuse;
  };
  const shown = (tab: Page): Promise<string[]> => tab.locator('article.user .said').allInnerTexts();

  const refuse = refuseLater();
  await say(page, 'too long');
  await other.goto(page.url());
  await other.locator('article.user').getByText('too long').waitFor();
  refuse();
  await page.getByText('Not sent: The prompt has 9000 tokens.').waitFor();
  await turnTo(other);
  await other.locator('article.user').getByText('too long').waitFor({ state: 'detached' });
  engine.script = echo;
  await say(other, 'second');
  await lastAnswer(other);
  await other.reload();
  await other.locator('article.answer').nth(1).waitFor();
  t.strictSame(await shown(other), ['first', 'second']);
  await other.evaluate(hoursLater);

  const refuseAgain = refuseLater();
  await turnTo(page);
  await page.locator('article.user').getByText('second').waitFor();
  await say(page, ', again');
  await until(() => engine.requests.length === 4);
  await turnTo(other);
  await other.locator('article.user').nth(2).waitFor();
  engine.script = echo;
  await say(other, 'third');
  await other.locator('article.answer').nth(3).locator('.numbers').waitFor();
  refuseAgain();
  await page.getByRole('alert').getByText('The prompt has 9000 tokens.').waitFor();
  await other.reload();
  await other.locator('article.user').getByText('third').waitFor();
  t.equal((await shown(other)).length, 4);
  t.strictSame(complaints, []);
});

t.test('an answer that fails in one tab shows its error in the other', { skip: missing('chromium') }, async (t) => {
  const { page, complaints, fail } = await failingAnswer(t);
  const other = await page.context().newPage();
  await other.goto(page.url());
  // The tab that writes saves every two seconds.
  while (!await other.getByText('The first half').isVisible()) {
    await other.waitForTimeout(500);
    await turnTo(other);
  }
  fail();
  await page.getByRole('alert').getByText('It crashed.').waitFor();
  await other.getByRole('alert').getByText('It crashed.').waitFor();
  t.strictSame(complaints, []);
});

t.test('without locks, too, only one tab writes an answer', { skip: missing('chromium') }, async (t) => {
  const { engine, page, other, complaints, finish } = await twoWindows(t);
  await page.context().addInitScript(withoutLocks);
  for (const tab of [page, other]) await tab.reload();
  await say(page, 'second');
  await page.locator('article.answer .prose').getByText('The first half').waitFor();
  await other.locator('article.answer .prose').getByText('The first half').waitFor();
  const told = other.getByText('Another tab is writing this answer.');
  await say(other, 'third');
  await told.waitFor();
  t.equal(await other.locator('article.user').count(), 2);
  await other.reload();
  await other.locator('article.answer .prose').getByText('The first half').waitFor();
  await other.getByRole('button', { name: 'Continue this answer' }).click();
  await told.waitFor();
  finish();
  await other.locator('article.answer .prose').getByText('The first half and the second.').waitFor();
  t.equal(engine.requests.length, 2);

  const { promise: held, resolve: release } = deferred();
  t.teardown(release);
  engine.script = async function* () {
    yield { content: 'Half of it' };
    await held;
  };
  await say(page, 'third');
  await other.locator('article.answer .prose').getByText('Half of it').waitFor();
  await page.goto('about:blank');
  engine.script = async function* () {
    yield { content: ' and the rest.' };
  };
  await other.locator('article.answer .prose').getByText('Half of it and the rest.').waitFor();
  t.strictSame(complaints, []);
});

t.test('without locks, too, two clicks continue an answer once', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', 'about:blank');
  await page.addInitScript(withoutLocks);
  await page.goto(url);
  engine.script = async function* (_request, signal) {
    yield { content: 'Half of it' };
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
  };
  await say(page, 'first');
  await page.locator('article.answer .prose').getByText('Half of it').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  const goOn = page.getByRole('button', { name: 'Continue this answer' });
  await goOn.waitFor();
  engine.script = async function* () {
    yield { content: ' and the rest.' };
  };
  // What the second click waits for comes after the answer's end.
  await goOn.evaluate(async (button: HTMLElement) => {
    button.click();
    const { setTimeout } = window;
    const late: (() => void)[] = [];
    Object.assign(window, { late, setTimeout: (then: () => void) => late.push(then) });
    button.click();
    await new Promise((resolve) => setTimeout(resolve));
    Object.assign(window, { setTimeout });
  });
  await page.locator('article.answer .prose').getByText('Half of it and the rest.').waitFor();
  await goOn.waitFor();
  await page.evaluate('for (const then of window.late) then()');
  // It would ask other tabs for a second.
  await page.waitForTimeout(2_000);
  t.equal(engine.requests.length, 2);
  t.strictSame(complaints, []);
});

for (const state of ['saved', 'not saved']) t.test(`an answer that two tabs write all the same stays as the first one ended it, and the other is ${state}`, { skip: missing('chromium') }, async (t) => {
  const { engine, page, other, complaints, finish } = await twoWindows(t);
  await say(page, 'second');
  await other.locator('article.answer .prose').getByText('The first half').waitFor();
  const { promise: held, resolve: release } = deferred();
  engine.script = async function* () {
    yield { content: ' once more' };
    await held;
    yield { content: ', and more.' };
  };
  // As a tab that gets no reply.
  await other.addInitScript(withoutLocks);
  await other.addInitScript('BroadcastChannel.prototype.postMessage = () => undefined');
  await other.reload();
  await other.locator('article.answer .prose').getByText('The first half once more').waitFor();
  finish();
  await page.locator('article.answer .prose').getByText('The first half and the second.').waitFor();
  await page.locator('article.answer').nth(1).locator('.numbers').waitFor();
  if (state === 'not saved') await other.evaluate("IDBObjectStore.prototype.put = () => { throw new DOMException('The disk is full.', 'QuotaExceededError'); }");
  release();
  await other.locator('article.answer .prose').getByText('The first half once more, and more.').waitFor();
  await other.locator('article.answer').nth(1).locator('.numbers').waitFor();
  if (state === 'not saved') await other.getByText('Not saved: ').waitFor();
  for (const tab of [other, page]) {
    await tab.reload();
    await tab.locator('article.answer .prose').getByText('The first half and the second.').waitFor();
  }
  t.strictSame(complaints, []);
});

t.test('a tab that does not write an answer keeps what it has drawn of it', { skip: missing('chromium') }, async (t) => {
  const { engine, page, other, complaints } = await twoWindows(t);
  const { promise: held, resolve: release } = deferred();
  engine.script = async function* () {
    yield { content: 'One.\n\nTwo.\n\nThr' };
    await held;
    yield { content: 'ee.\n\nFour.' };
  };
  await say(page, 'second');
  await other.locator('article.answer p').getByText('Two.').waitFor();
  await other.evaluate("[...document.querySelectorAll('article.answer p')].find((one) => one.textContent === 'One.').kept = true");
  release();
  await other.locator('article.answer p').getByText('Four.').waitFor();
  t.equal(await other.evaluate("[...document.querySelectorAll('article.answer p')].find((one) => one.textContent === 'One.').kept"), true);
  t.strictSame(complaints, []);
});
