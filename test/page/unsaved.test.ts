// What the database does not have yet when a tab is left or loaded again.
import t, { type Test } from 'tap';
import { startApp } from '../server/app-under-test.js';
import type { FakeEngine } from '../server/fake-engine.js';
import { act, attach, closeBrowsers, comesTrue, lastAnswer, missing, openPage, say, turnTo } from './browsers.js';
import type { Locator, Page } from 'playwright-core';

t.teardown(closeBrowsers);

/** Keeps the database busy: each save waits until window.free() is called or the page is left. */
const busy = `new Promise((resolve) => {
  indexedDB.open('recua').onsuccess = ({ target }) => {
    const store = target.result.transaction(['conversations', 'messages'], 'readwrite').objectStore('messages');
    let isFree = false;
    window.free = () => { isFree = true; };
    const again = () => { if (!isFree) store.get('').onsuccess = again; resolve(); };
    again();
  };
})`;
/** The disk is full, until window.makeRoom() is called or the page is left. */
const full = `{
  const { put } = IDBObjectStore.prototype;
  IDBObjectStore.prototype.put = () => { throw new DOMException('The quota has been exceeded.', 'QuotaExceededError'); };
  window.makeRoom = () => { IDBObjectStore.prototype.put = put; };
}`;
/** Run in each new page: while localStorage has `fails`, that function of the database throws. */
const failing = `{
  const prototypes = { put: IDBObjectStore.prototype, open: IDBFactory.prototype };
  const name = location.protocol === 'http:' && localStorage.getItem('fails');
  if (name) prototypes[name][name] = () => { throw new DOMException('The disk is broken.', 'UnknownError'); };
}`;

interface Chat {
  page: Page;
  engine: FakeEngine;
  url: string;
  complaints: string[];
}

/** Waits until another tab can read such a message. */
const isSaved = (page: Page, test: string): Promise<void> => comesTrue(page, `new Promise((resolve) => { indexedDB.open('recua').onsuccess = ({ target }) => {
  const { result } = target;
  result.transaction('messages').objectStore('messages').getAll().onsuccess = ({ target }) => { result.close(); resolve(target.result.some(${test})); };
}; })`);

/** A page with one saved message, `first`, and its answer. */
async function openChat(t: Test): Promise<Chat> {
  const { url, engine } = await startApp(t);
  engine.script = async function* () {
    await new Promise(setImmediate);
    yield { content: `Answer ${engine.requests.length}.` };
  };
  const { page, complaints } = await openPage(t, 'chromium', url);
  await page.addInitScript(failing);
  await say(page, 'first');
  await lastAnswer(page);
  await isSaved(page, '({ finish }) => finish');
  return { page, engine, url, complaints };
}

const fails = (page: Page, name: string): Promise<unknown> => page.evaluate(`localStorage.setItem('fails', '${name}')`);
const shown = (page: Page): Promise<string[]> => page.locator('article').allInnerTexts();
const entries = (page: Page): Locator => page.getByRole('navigation', { name: 'Chats' }).getByRole('listitem');

/** Says something and waits for the whole answer, the `count`-th of the chat. */
async function ask(page: Page, text: string, count: number): Promise<void> {
  await say(page, text);
  await page.locator('article.answer').nth(count - 1).locator('.numbers').waitFor();
}

/** Another tab, which keeps the database busy. */
async function openBusyTab(page: Page, url: string): Promise<Page> {
  const other = await page.context().newPage();
  await other.goto(url);
  await entries(other).waitFor();
  await other.evaluate(busy);
  await page.bringToFront();
  return other;
}

/** A page that was left with an unsaved message and its answer, and another tab. */
async function leaveChat(t: Test): Promise<Pick<Chat, 'page' | 'complaints'> & { chat: string; other: Page }> {
  const { page, url, complaints } = await openChat(t);
  await page.evaluate(full);
  await ask(page, 'second', 2);
  const chat = page.url();
  await page.goto('about:blank');
  const other = await page.context().newPage();
  await other.goto(url);
  return { page, chat, other, complaints };
}

for (const [state, breaks] of [['being saved', busy], ['not saved', full]] as const) {
  t.test(`messages that are ${state} stay when the page is loaded again`, { skip: missing('chromium') }, async (t) => {
    const { page, engine, complaints } = await openChat(t);
    await page.evaluate(breaks);
    await ask(page, 'second', 2);
    await page.getByRole('button', { name: 'New chat' }).first().click();
    await page.locator('article').first().waitFor({ state: 'detached' });
    await ask(page, 'third', 1);
    await page.reload();
    await page.locator('article.answer').getByText('Answer 3.').waitFor();
    await entries(page).getByText('first').click();
    await page.locator('article.answer').getByText('Answer 2.').waitFor();
    t.match(await shown(page), [/first/, /Answer 1/, /second/, /Answer 2/]);
    await page.reload();
    await page.locator('article.answer').getByText('Answer 2.').waitFor();
    t.equal(engine.requests.length, 3, 'nothing was asked again');
    t.strictSame(complaints, []);
  });
}

t.test('a chat that is being deleted does not come back with the next page', { skip: missing('chromium') }, async (t) => {
  const { page, url, complaints } = await openChat(t);
  const other = await openBusyTab(page, url);
  await act(entries(page), 'Delete');
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await entries(page).waitFor({ state: 'detached' });
  for (let times = 0; times < 2; times++) await page.reload();
  await other.evaluate('window.free()');
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  await comesTrue(page, `new Promise((resolve) => { indexedDB.open('recua').onsuccess = ({ target }) => {
    const { result } = target;
    const [chats, messages] = ['conversations', 'messages'].map((name) => result.transaction(name).objectStore(name).count());
    messages.onsuccess = () => { result.close(); resolve(chats.result + messages.result === 0); };
  }; })`);
  await page.reload();
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  t.equal(await entries(page).count(), 0);
  t.strictSame(complaints, []);
});

t.test('messages stay over any number of reloads until they are saved', { skip: missing('chromium') }, async (t) => {
  await t.test('while another tab keeps the database busy', async (t) => {
    const { page, url, complaints } = await openChat(t);
    const other = await openBusyTab(page, url);
    await ask(page, 'second', 2);
    await page.reload();
    await page.waitForTimeout(500);
    await page.reload();
    await page.waitForTimeout(500);
    await other.evaluate('free()');
    await page.locator('article.answer').getByText('Answer 2.').waitFor();
    t.strictSame(complaints, []);
  });
  for (const name of ['put', 'open']) {
    await t.test(`while ${name}() of the database fails`, async (t) => {
      const { page, complaints } = await openChat(t);
      await fails(page, name);
      await page.evaluate(full);
      await ask(page, 'second', 2);
      await act(entries(page).first(), 'Rename');
      await page.getByRole('dialog').getByRole('textbox').fill('Fruit');
      await page.keyboard.press('Enter');
      await entries(page).getByText('Fruit').waitFor();
      for (const _ of [1, 2]) {
        await page.reload();
        await page.getByText(/(Not saved|Cannot read .*): The disk is broken/).first().waitFor();
      }
      await page.evaluate('localStorage.clear()');
      await page.reload();
      await entries(page).getByText('Fruit').click();
      await page.locator('article.answer').getByText('Answer 2.').waitFor();
      t.match(await shown(page), [/first/, /Answer 1/, /second/, /Answer 2/]);
      t.strictSame(complaints, []);
    });
  }
});

t.test('the browser asks before it leaves more than a tab can keep', { skip: missing('chromium') }, async (t) => {
  const { page, complaints } = await openChat(t);
  const asked: string[] = [];
  page.on('dialog', (dialog) => {
    asked.push(dialog.type());
    void dialog.accept();
  });
  await page.reload();
  await lastAnswer(page);
  t.strictSame(asked, [], 'all is saved');
  await page.evaluate(full);
  await attach(page, 'a.csv', '"a","b","c"\n'.repeat(300_000), 'text/csv');
  await ask(page, 'second', 2);
  await page.reload();
  t.strictSame(asked, ['beforeunload']);
  t.strictSame(complaints, []);
});

for (const name of ['chromium', 'firefox'] as const) {
  t.test(`in ${name}, a reload at once after the first message shows the chat, and the answer comes`, { skip: missing(name) }, async (t) => {
    const { url, engine } = await startApp(t);
    engine.script = async function* () {
      await new Promise((resolve) => setTimeout(resolve, 20));
      yield { content: 'Yes.' };
    };
    const { page, complaints } = await openPage(t, name, url);
    for (let round = 0; round < 6; round++) {
      await page.getByRole('button', { name: 'New chat' }).first().click();
      await page.getByRole('heading', { name: 'Start a chat' }).waitFor();
      await say(page, `question ${round}`);
      await page.reload();
      await page.locator('article.user').getByText(`question ${round}`).waitFor();
      await page.locator('article.answer .prose').getByText('Yes.').waitFor();
      t.equal(await page.getByText('Cannot reach the server').count(), 0);
    }
    t.strictSame(complaints, []);
  });
}

t.test('an answer can be continued while its end is still being saved', { skip: missing('chromium') }, async (t) => {
  const { page, engine, complaints } = await openChat(t);
  const answer = page.locator('article.answer').nth(1);
  const says = (content: string) => {
    engine.script = async function* () {
      yield { content };
    };
  };
  says('So far');
  await page.evaluate(busy);
  await say(page, 'second');
  await answer.locator('.numbers').waitFor();
  says(', and on.');
  await answer.getByRole('button', { name: 'Continue this answer' }).click();
  await page.evaluate('window.free()');
  await answer.getByText('So far, and on.').waitFor();
  t.equal(engine.requests.length, 3);
  t.strictSame(complaints, []);
});

const secondHalf: FakeEngine['script'] = async function* () {
  await new Promise(setImmediate);
  yield { content: ' And the second half.' };
};

/** Stops an answer after "Half one." and returns the button that continues it. */
async function stopHalfway({ page, engine }: Chat) {
  engine.script = async function* (_request, signal) {
    yield { content: 'Half one.' };
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
  };
  await say(page, 'second');
  await page.locator('article.answer .prose').getByText('Half one.').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  const goOn = page.getByRole('button', { name: /^Continue/ }).last();
  await goOn.waitFor();
  return goOn;
}

t.test('an answer goes on at once, whatever the database is doing', { skip: missing('chromium') }, async (t) => {
  const chat = await openChat(t);
  const { page, engine, complaints } = chat;
  const goOn = await stopHalfway(chat);
  // It begins after the saves before it.
  await page.evaluate(busy);
  engine.script = secondHalf;
  await goOn.click();
  // What comes back from the database now is older than what is shown.
  await page.evaluate('window.dispatchEvent(new Event("focus"))');
  await page.locator('article.answer .prose').getByText('Half one. And the second half.').waitFor();
  await page.evaluate('window.free()');
  await page.reload();
  await page.locator('article.answer .prose').getByText('Half one. And the second half.').waitFor();
  t.equal(engine.requests.length, 3);
  t.strictSame(complaints, []);
});

t.test('the rest of an answer that was stopped and continued stays', { skip: missing('chromium') }, async (t) => {
  const chat = await openChat(t);
  const { page, engine, complaints } = chat;
  const goOn = await stopHalfway(chat);
  await page.reload();
  await goOn.waitFor();
  engine.script = secondHalf;
  await page.evaluate(full);
  await goOn.click();
  await page.locator('article.answer .prose').getByText('And the second half.').waitFor();
  await page.getByText('Not saved: ').waitFor();
  await page.reload();
  await page.locator('article.answer .prose').getByText('Half one. And the second half.').waitFor();
  t.strictSame(complaints, []);
});

t.test('a call of a tool that a reload or Stop cut is not shown as whole', { skip: missing('chromium') }, async (t) => {
  const { page, engine, complaints } = await openChat(t);
  const halfCall: typeof engine.script = async function* (_request, signal) {
    yield { content: 'Let me see.' };
    yield { toolCalls: [{ index: 0, id: 'call_1', name: 'weather', arguments: '{"ci' }] };
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
  };
  engine.script = halfCall;
  await say(page, 'second');
  await page.locator('article.answer').getByText('{"ci').waitFor();
  engine.script = async function* () {
    await new Promise(setImmediate);
    yield { content: ' It is warm.' };
  };
  await page.reload();
  await page.locator('article.answer .prose').getByText('Let me see. It is warm.').waitFor();
  await page.locator('article.answer').nth(1).locator('.numbers').waitFor();
  t.equal(await page.getByText('{"ci').count(), 0);

  engine.script = halfCall;
  await say(page, 'third');
  await page.locator('article.answer').getByText('{"ci').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByRole('button', { name: 'Continue this answer' }).last().waitFor();
  t.equal(await page.getByRole('button', { name: 'Submit result' }).count(), 0);
  t.strictSame(complaints, []);
});

t.test('messages after the last one of a server file are shown again', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await page.addInitScript(failing);
  // As after its file was read: nothing is shown after the file's last message.
  const conversation = { title: 'cusco', model: 'owner/model', chosen: { '': 'u', u: 'a', a: '' } };
  const messages = [{ id: 'u', parent: '', role: 'user', content: 'Hi' }, { id: 'a', parent: 'u', role: 'assistant', content: 'Hello', finish: 'stop' }];
  await page.getByLabel('File to import').setInputFiles({ name: 'chats.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify({ format: 'recua-chats', version: 1, chats: [{ conversation, messages }] })) });
  await entries(page).getByText('cusco').click();
  await page.locator('article.answer').getByText('Hello').waitFor();
  await fails(page, 'put');
  await page.evaluate(full);
  await ask(page, 'And Lima?', 2);
  await page.reload();
  await page.locator('article.user').getByText('And Lima?').waitFor();
  await page.getByText('Not saved: ').waitFor();
  await page.evaluate('localStorage.clear()');
  await page.reload();
  await page.locator('article.user').getByText('And Lima?').waitFor();
  t.strictSame(complaints, []);
});

t.test('what another tab changed meanwhile stays', { skip: missing('chromium') }, async (t) => {
  await t.test('a title and a pin', async (t) => {
    const { page, chat, other, complaints } = await leaveChat(t);
    await act(entries(other), 'Rename');
    await other.getByRole('dialog').getByRole('textbox').fill('Fruit');
    await other.keyboard.press('Enter');
    await entries(other).getByText('Fruit').waitFor();
    await act(entries(other), 'Pin');
    await other.getByRole('heading', { name: 'Pinned' }).waitFor();
    await page.goto(chat);
    await page.locator('article.answer').getByText('Answer 2.').waitFor();
    await other.reload();
    await entries(other).getByText('Fruit').click();
    await other.locator('article.answer').getByText('Answer 2.').waitFor();
    await other.getByRole('heading', { name: 'Pinned' }).waitFor();
    t.strictSame(complaints, []);
  });
  await t.test('which version is shown', async (t) => {
    const { page, chat, other, complaints } = await leaveChat(t);
    await entries(other).getByRole('link').click();
    await other.locator('article.user').hover();
    await other.getByRole('button', { name: 'Edit and resend' }).click();
    await other.locator('.editor textarea').fill('edited');
    await other.getByRole('button', { name: 'Send', exact: true }).first().click();
    await other.locator('article.user').getByText('2/2').waitFor();
    await lastAnswer(other);
    await isSaved(other, "({ content }) => content === 'edited'");
    await page.goto(chat);
    await page.locator('article.user').getByText('edited').waitFor();
    await page.getByRole('button', { name: 'Previous version' }).first().click();
    await page.locator('article.answer').getByText('Answer 2.').waitFor();
    t.strictSame(complaints, []);
  });
  await t.test('an end of an answer that this tab had more of', async (t) => {
    const { page, engine, complaints } = await openChat(t);
    engine.script = async function* (_request, signal) {
      for (let word = 0; !signal.aborted && word < 1_000; word++) {
        yield { content: `w${word} ` };
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    };
    await say(page, 'second');
    await page.locator('article.answer .prose').getByText('w10 ').waitFor();
    const chat = page.url();
    // What the database has by now is up to two seconds older.
    await page.goto('about:blank');
    const other = await page.context().newPage();
    engine.script = async function* () {
      await new Promise(setImmediate);
      yield { content: 'END' };
    };
    await other.goto(chat);
    await other.locator('article.answer .prose').getByText('END').waitFor();
    await other.locator('article.answer').nth(1).locator('.numbers').waitFor();
    await page.goto(chat);
    await page.locator('article.answer .prose').getByText('END').waitFor();
    t.equal(engine.requests.length, 3);
    t.strictSame(complaints, []);
  });
  await t.test('the rest of an answer', async (t) => {
    const { page, engine, complaints } = await openChat(t);
    engine.script = async function* (_request, signal) {
      yield { content: 'One' };
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
    };
    await say(page, 'second');
    await page.locator('article.answer .prose').getByText('One').waitFor();
    const other = await page.context().newPage();
    await other.goto(page.url());
    while (!await other.locator('article.answer .prose').getByText('One').isVisible()) {
      await other.waitForTimeout(500);
      await turnTo(other);
    }
    engine.script = async function* () {
      await new Promise(setImmediate);
      yield { content: ' two three.' };
    };
    await page.bringToFront();
    await page.evaluate(full);
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText('Not saved: ').waitFor();
    await other.bringToFront();
    await other.locator('article.answer .prose').getByText('One two three.').waitFor();
    await other.locator('article.answer').nth(1).locator('.numbers').waitFor();
    await page.bringToFront();
    await page.evaluate('makeRoom()');
    await act(entries(page).first(), 'Pin');
    await page.getByRole('heading', { name: 'Pinned' }).waitFor();
    await page.reload();
    await page.locator('article.answer .prose').getByText('One two three.').waitFor();
    t.strictSame(complaints, []);
  });
});

t.test('a chat that another tab deleted does not come back with what was left of it', { skip: missing('chromium') }, async (t) => {
  const { page, url, complaints } = await openChat(t);
  const other = await page.context().newPage();
  await other.goto(url);
  const listed = other.getByRole('navigation', { name: 'Chats' }).getByRole('listitem');
  await listed.waitFor();
  await page.bringToFront();
  await page.evaluate(full);
  await say(page, 'second');
  await page.locator('article.answer').nth(1).locator('.numbers').waitFor();
  await page.goto('about:blank');
  await other.bringToFront();
  await act(listed, 'Delete');
  await other.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await listed.waitFor({ state: 'detached' });
  await page.goBack();
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  await say(page, 'new');
  await lastAnswer(page);
  await other.reload();
  await listed.getByText('new').waitFor();
  t.equal(await listed.count(), 1);
  t.strictSame(complaints, []);
});
