// What the chat says about itself: a model that loads, an answer that continues, a chat that is not
// here.
import t from 'tap';
import { RecuaError } from '#recua/errors.js';
import { startApp, until } from '../server/app-under-test.js';
import { echo, hang, type FakeEngine } from '../server/fake-engine.js';
import { FakePool } from '../server/fake-pool.js';
import { deferred } from '../deferred.js';
import { act, attach, closeBrowsers, comesTrue, lastAnswer, missing, openPage, say } from './browsers.js';

t.teardown(closeBrowsers);

t.test('a reload before the first new token of a continuation continues it', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  engine.script = async function* (request, signal) {
    yield { content: 'The first half' };
    yield* hang(request, signal);
  };
  await say(page, 'tell me');
  await page.locator('article.answer .prose').getByText('The first half').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.locator('.numbers').getByText('stopped').waitFor();
  await until(() => engine.running.size === 0);
  engine.script = hang;
  await page.getByRole('button', { name: 'Continue this answer' }).click();
  await until(() => engine.running.size === 1);
  engine.script = async function* () {
    yield { content: ' and the second.' };
  };
  await page.reload();
  await page.locator('article.answer .prose').getByText('The first half and the second.').waitFor();
  t.strictSame(complaints, []);
});

t.test('an answer that reloads cut has no more than the max tokens of the settings', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  const words = (...said: string[]) => {
    engine.script = async function* (request, signal) {
      for (const [at, content] of said.entries()) {
        const usage = { promptTokens: 1, cachedTokens: 0, completionTokens: at + 1 };
        yield { content, soFar: { usage, timings: { queueMs: 0, promptMs: 1, generateMs: 1 } } };
      }
      yield* hang(request, signal);
    };
  };
  const prose = page.locator('article.answer .prose');
  const limits = () => engine.requests.map(({ maxTokens }) => maxTokens);
  words('one', ' two', ' three');
  await page.getByRole('button', { name: 'Chat settings' }).click();
  await page.getByLabel('Max tokens').fill('10');
  await say(page, 'Count');
  await prose.getByText('one two three').waitFor();
  words(' four', ' five');
  await page.reload();
  await prose.getByText('four five').waitFor();
  words(' six');
  await page.reload();
  await prose.getByText('six').waitFor();
  t.strictSame(limits(), [10, 7, 5]);
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await page.locator('.numbers').getByText('stopped').waitFor();
  words(' seven');
  await page.getByRole('button', { name: 'Continue this answer' }).click();
  await prose.getByText('seven').waitFor();
  await page.reload();
  await until(() => engine.requests.length === 5);
  t.strictSame(limits().slice(3), [10, 9], 'who asks for more gets as much again');
  t.strictSame(complaints, []);
});

t.test('the address of a chat that is not here says so, and leaves the message box free', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', `${url}/#/chat/unknown`);
  const notice = page.getByRole('status').getByText('This chat is not in this browser.');
  await notice.waitFor();
  const [above, below] = await Promise.all([notice, page.locator('.composer')].map((one) => one.boundingBox()));
  t.ok(above!.y + above!.height < below!.y);
  await say(page, 'hello');
  await lastAnswer(page);
  t.notMatch(page.url(), /unknown/);
  t.strictSame(complaints, []);
});

t.test('each of two answers names its model from the beginning', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  engine.script = hang;
  const { page } = await openPage(t, 'chromium', url);
  await page.getByRole('button', { name: 'Two models side by side' }).click();
  await say(page, 'Count');
  await page.locator('.pair-side').nth(1).getByText('owner/model').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
});

t.test('the page follows a model while it loads', { skip: missing('chromium') }, async (t) => {
  const pool = new FakePool('owner/a');
  pool.slow.add('owner/a');
  const { url, engine } = await startApp(t, {}, pool.entry('owner/a').engine, { pool });
  engine.script = async function* (request, signal) {
    yield { content: 'So far' };
    yield* hang(request, signal);
  };
  const { page, complaints } = await openPage(t, 'chromium', 'about:blank');
  // Not by looking every few seconds.
  await page.addInitScript('{ const set = setInterval; window.setInterval = (work, ms) => set(work, ms === 5000 ? 3600000 : ms); }');
  await page.goto(url);
  await page.getByText('Your first message loads owner/a on this server.').waitFor();
  await page.getByText('not loaded; the first message loads it').waitFor();
  await say(page, 'Count');
  await page.getByText('loading…', { exact: true }).waitFor();
  pool.finish('owner/a');
  await page.locator('.prose').getByText('So far').waitFor();
  await page.getByText(/^\d+ \/ [\d,]+ tokens$/).waitFor();
  t.strictSame(await page.locator('.picker option').allTextContents(), ['owner/a']);
  await page.getByRole('button', { name: 'New chat' }).first().click();
  await page.getByText('owner/a runs on this server.').waitFor();
  t.strictSame(complaints, []);
});

t.test('a message that is too long comes back with its files, and the chat goes on', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const tooLong = () => { throw new RecuaError('context_length_exceeded', 'The prompt has 9000 tokens.'); };
  engine.script = tooLong;
  const { page } = await openPage(t, 'chromium', url);
  await attach(page, 'long.txt', 'x'.repeat(9_000));
  const box = page.getByRole('textbox', { name: 'Message' });
  await say(page, 'Sum this up');
  await page.getByText('Not sent: The prompt has 9000 tokens.').waitFor();
  await page.locator('article').first().waitFor({ state: 'detached' });
  await page.getByText(/^9,012 \/ [\d,]+ tokens$/).waitFor();
  t.equal(await box.inputValue(), 'Sum this up');
  const chats = page.getByRole('navigation', { name: 'Chats' }).getByRole('listitem');
  await chats.first().waitFor({ state: 'detached' });
  t.notMatch(page.url(), /chat\//, 'it is a new chat again');
  await page.reload();
  await page.getByRole('button', { name: 'Remove long.txt' }).waitFor();
  t.equal(await page.locator('article').count(), 0, 'it was not kept either');
  t.equal(await chats.count(), 0);
  t.equal(await box.inputValue(), 'Sum this up');
  await page.getByRole('button', { name: 'Remove long.txt' }).click();
  engine.script = echo;
  await say(page, 'Hello');
  await page.locator('article.answer .prose').getByText('Hello').waitFor();

  // Another version of a message stays: the one before it is still there.
  await attach(page, 'short.txt', 'short');
  await say(page, 'And this');
  await page.locator('article.answer').nth(1).locator('.numbers').waitFor();
  engine.script = tooLong;
  await page.locator('article.user').last().hover();
  await page.getByRole('button', { name: 'Edit and resend' }).last().click();
  await page.getByRole('button', { name: 'Remove short.txt' }).click();
  await page.getByRole('textbox', { name: 'Text' }).press('Control+Enter');
  await page.locator('article.answer').last().getByText('The prompt has 9000 tokens.').waitFor();
  t.equal(await page.locator('article.user').last().locator('.file').count(), 0);
  await page.getByRole('button', { name: 'Previous version' }).last().click();
  await page.locator('article.user').last().getByText('short.txt').waitFor();
});

t.test('each of two answers side by side can be continued', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await page.getByRole('button', { name: 'Two models side by side' }).click();
  engine.script = async function* () {
    yield { content: 'So far' };
  };
  await say(page, 'Tell me');
  const sides = page.locator('.pair-side');
  // Both are complete.
  await sides.getByRole('button', { name: 'Continue this answer' }).nth(1).waitFor();
  for (const at of [0, 1]) {
    engine.script = async function* () {
      yield { content: `, and on ${at}.` };
    };
    await sides.nth(at).getByRole('button', { name: 'Continue this answer' }).click();
    await sides.nth(at).getByText(`So far, and on ${at}.`).waitFor();
  }
  await page.reload();
  await sides.nth(1).getByText('So far, and on 1.').waitFor();
  t.strictSame(complaints, []);
});

t.test('an answer that fills the context stays as it is, and the page says so', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'apples');
  await lastAnswer(page);
  engine.script = () => {
    throw new RecuaError('context_length_exceeded', 'Expected a prompt of fewer than 4096 tokens.', { details: { n_prompt_tokens: 4096, n_ctx: 4096 } });
  };
  await page.getByRole('button', { name: 'Continue this answer' }).click();
  await page.getByText('This answer cannot be continued: the context is full.').waitFor();
  await lastAnswer(page);
  t.equal(await page.getByRole('alert').count(), 0);
  await say(page, 'more');
  await page.getByText('Not sent: The chat would have 4096 tokens, and the context has room for 4096. Shorten the message, begin a new chat, or start').waitFor();
  engine.script = () => {
    const details = { n_prompt_tokens: 5000, n_ctx: 4096, n_ctx_train: 4096, counted: 'in part' };
    throw new RecuaError('context_length_exceeded', 'Expected a prompt of fewer than 4096 tokens.', { details });
  };
  await say(page, 'still more');
  await page.getByText('Not sent: The chat would have at least 5000 tokens, and the context has room for 4096. Shorten the message or begin a new chat: the model has no larger context.').waitFor();
  await page.reload();
  t.match(await lastAnswer(page), 'apples');
  t.strictSame(complaints, []);
});

/** The next message is too long; the engine says so when the returned function is called. */
function refusesLater(engine: FakeEngine): () => void {
  const { promise: refused, resolve: refuse } = deferred();
  engine.script = async function* () {
    await refused;
    throw new RecuaError('context_length_exceeded', 'The prompt has 9000 tokens.');
  };
  return () => refuse();
}

t.test('a message that is too long comes back into a chat that was left and opened again', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'apples');
  await lastAnswer(page);
  const address = page.url();
  const refuse = refusesLater(engine);
  await say(page, 'too long');
  await page.locator('article.user').getByText('too long').waitFor();
  await page.getByRole('button', { name: 'New chat' }).first().click();
  await page.getByRole('heading', { name: 'Start a chat' }).waitFor();
  await page.goto(address);
  await page.locator('article.user').getByText('too long').waitFor();
  refuse();
  await page.getByText('Not sent: The prompt has 9000 tokens.').waitFor();
  await page.locator('article.user').getByText('too long').waitFor({ state: 'detached' });
  engine.script = echo;
  await say(page, 'pears');
  await page.locator('article.answer').nth(1).locator('.numbers').waitFor();
  await page.reload();
  await page.locator('article.user').getByText('pears').waitFor();
  t.strictSame(complaints, []);
});

t.test('a message that is too long comes back after a reload, too', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'apples');
  await lastAnswer(page);
  const refuse = refusesLater(engine);
  await say(page, 'too long');
  await page.locator('article.user').getByText('too long').waitFor();
  await page.reload();
  await page.locator('article.user').getByText('too long').waitFor();
  await until(() => engine.running.size > 0);
  refuse();
  await page.getByText('Not sent: The prompt has 9000 tokens.').waitFor();
  await page.locator('article.user').getByText('too long').waitFor({ state: 'detached' });
  t.equal(await page.getByRole('textbox', { name: 'Message' }).inputValue(), 'too long');
  t.strictSame(complaints, []);
});

t.test('nothing is added after a message that is being taken back', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'apples');
  await lastAnswer(page);
  const refuse = refusesLater(engine);
  await say(page, 'too long');
  await until(() => engine.running.size === 1);
  // The database is slow to delete it.
  await page.evaluate(`{
    const remove = IDBObjectStore.prototype.delete;
    IDBObjectStore.prototype.delete = function (key) {
      window.isDeleting = true;
      const again = () => { if (window.isFree) remove.call(this, key); else this.get(key).onsuccess = again; };
      again();
    };
  }`);
  refuse();
  await comesTrue(page, 'window.isDeleting');
  engine.script = echo;
  await say(page, 'pears');
  await page.evaluate('window.isFree = true');
  await page.getByText('Not sent: The prompt has 9000 tokens.').waitFor();
  await page.keyboard.press('Enter');
  await page.locator('article.user').getByText('pears').waitFor();
  await page.locator('article.answer').nth(1).locator('.numbers').waitFor();
  await page.reload();
  await page.locator('article.user').getByText('pears').waitFor();
  t.strictSame(complaints, []);
});

t.test('a message that was taken back hides nothing of a chat that is exported and imported', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'apples');
  await lastAnswer(page);
  engine.script = () => { throw new RecuaError('context_length_exceeded', 'The prompt has 9000 tokens.'); };
  await say(page, 'too long');
  await page.getByText('Not sent: The prompt has 9000 tokens.').waitFor();
  await page.locator('article.user').nth(1).waitFor({ state: 'detached' });
  const exporting = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export all' }).click();
  const file = await (await exporting).path();
  const { page: other } = await openPage(t, 'chromium', url);
  await other.getByLabel('File to import').setInputFiles(file);
  await other.getByRole('navigation', { name: 'Chats' }).getByText('apples').click();
  await other.locator('article.answer').getByText('apples').waitFor();
  t.strictSame(complaints, []);
});

t.test('the chats are listed again once after an import, not after each of its chats', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await page.evaluate('{ const { getAll } = IDBObjectStore.prototype; window.listed = 0; IDBObjectStore.prototype.getAll = function (...given) { window.listed++; return getAll.apply(this, given); }; }');
  const chats = Array.from({ length: 40 }, (_, at) => ({ conversation: { title: `Chat ${at}` }, messages: [{ id: 'm', parent: '', role: 'user', content: 'Hello' }] }));
  const file = { name: 'chats.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify({ format: 'recua-chats', version: 1, chats })) };
  await page.getByLabel('File to import').setInputFiles(file);
  await page.getByText('40 chats imported').waitFor();
  await page.getByRole('navigation', { name: 'Chats' }).getByText('Chat 39').waitFor();
  t.ok(Number(await page.evaluate('window.listed')) < 5);
});

t.test('a file that is read while another view is open is shown, and waited for', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await page.evaluate('{ const read = File.prototype.arrayBuffer; File.prototype.arrayBuffer = async function () { await new Promise((resolve) => { window.letRead = resolve; }); return read.call(this); }; }');
  await page.getByLabel('Files to attach').setInputFiles({ name: 'table.csv', mimeType: 'text/csv', buffer: Buffer.from('a,b') });
  await comesTrue(page, 'window.letRead !== undefined');
  await page.getByRole('link', { name: 'Now' }).click();
  await page.getByRole('heading', { name: 'Now' }).waitFor();
  await page.getByRole('link', { name: 'Chat', exact: true }).click();
  await page.getByRole('textbox', { name: 'Message' }).fill('What is in it?');
  t.ok(await page.getByRole('button', { name: 'Send', exact: true }).isDisabled());
  await page.evaluate('window.letRead()');
  await page.getByRole('button', { name: 'Remove table.csv' }).click();
  await page.getByRole('list', { name: 'Attached files' }).waitFor({ state: 'detached' });
  t.strictSame(complaints, []);
});

t.test('the gauge counts a message without an answer', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  engine.script = () => { throw new RecuaError('queue_full', 'Try again later.'); };
  const { page } = await openPage(t, 'chromium', url);
  await say(page, 'x'.repeat(900));
  await page.getByText('Try again later.').waitFor();
  await page.getByText(/^900 \/ [\d,]+ tokens$/).waitFor();
});

t.test('a message sent at once into a new chat stays in it', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await say(page, 'first');
  await lastAnswer(page);
  await page.evaluate(`(async () => {
    document.querySelector('button.new').click();
    // Drawn, but the browser has not told the new address yet.
    for (let i = 0; i < 5; i++) await undefined;
    const box = document.querySelector('.composer textarea');
    box.value = 'second';
    box.dispatchEvent(new Event('input', { bubbles: true }));
    box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
    await new Promise((resolve) => setTimeout(resolve, 300));
  })()`);
  t.match(await lastAnswer(page), /second/);
  t.equal(await page.locator('article.user').count(), 1);
});

t.test('a new chat that is begun before the next paint stays open', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await say(page, 'first');
  await lastAnswer(page);
  // As soon as the chat is drawn.
  await page.addInitScript(() => {
    const watcher = new MutationObserver(() => {
      if (!document.querySelector('article')) return;
      watcher.disconnect();
      document.querySelector<HTMLElement>('button.new')!.click();
    });
    watcher.observe(document, { childList: true, subtree: true });
  });
  await page.reload();
  await page.getByRole('heading', { name: 'Start a chat' }).waitFor();
  await page.waitForTimeout(300);
  await say(page, 'second');
  await page.locator('article.user').getByText('second').waitFor();
  t.strictSame(await page.locator('article.user .said').allInnerTexts(), ['second']);
});

t.test('of two answers whose first failed, the chat continues with the other', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await page.getByRole('button', { name: 'Two models side by side' }).click();
  engine.script = async function* (request) {
    if (engine.requests.length === 1) throw new RecuaError('model_crashed', 'It crashed.');
    yield* echo(request);
  };
  await say(page, 'apples');
  await page.getByRole('alert').getByText('It crashed.').waitFor();
  await page.locator('.pair-side.chosen .prose').getByText('apples').waitFor();
  await page.getByRole('button', { name: 'Chosen' }).waitFor();
  await say(page, 'pears');
  await until(() => engine.requests.length === 4);
  t.match(JSON.parse(engine.requests.at(-1)!.messages), [{ content: 'apples' }, { role: 'assistant', content: 'apples' }, { content: 'pears' }]);
});

t.test('a long text that is pasted takes the place of what is selected, as a file and as text', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  const box = page.getByRole('textbox', { name: 'Message' });
  await box.fill('Read this: OLD, please.');
  await page.evaluate(`(() => {
    const box = document.querySelector('.composer textarea');
    box.setSelectionRange(11, 14);
    const data = new DataTransfer();
    data.setData('text/plain', 'x'.repeat(5000));
    box.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
  })()`);
  await page.getByText('pasted-1.txt').waitFor();
  t.equal(await box.inputValue(), 'Read this: , please.');
  await page.getByRole('button', { name: 'insert as text' }).click();
  await comesTrue(page, `document.querySelector('.composer textarea').value === 'Read this: ' + 'x'.repeat(5000) + ', please.'`);
  t.equal(await page.getByText('pasted-1.txt').count(), 0);
  t.strictSame(complaints, []);
});

t.test('text is pasted beside a picture of it, and dragged into the box', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  const box = page.getByRole('textbox', { name: 'Message' });
  /** Whether the page takes the paste from the browser. */
  const pasting = (text: string, name: string, type: string): Promise<boolean> => box.evaluate((at, [said, file, kind]) => {
    const data = new DataTransfer();
    data.setData('text/plain', said);
    data.items.add(new File(['x'], file, { type: kind }));
    const event = new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true });
    at.dispatchEvent(event);
    return event.defaultPrevented;
  }, [text, name, type] as const);
  // As from a spreadsheet, then as a copied file with its name.
  t.equal(await pasting('llamas\t30', 'image.png', 'image/png'), false);
  t.equal(await pasting('notes.txt', 'notes.txt', 'text/plain'), true);
  await page.getByRole('list', { name: 'Attached files' }).getByText('notes.txt').waitFor();
  await page.getByRole('button', { name: 'Remove notes.txt' }).click();

  await say(page, 'alpacas');
  await lastAnswer(page);
  const said = page.locator('article.user .said');
  await said.dblclick({ position: { x: 20, y: 15 } });
  await said.hover({ position: { x: 20, y: 15 } });
  await page.mouse.down();
  await box.hover();
  await box.hover({ position: { x: 30, y: 10 } });
  await page.mouse.up();
  await comesTrue(page, "document.querySelector('.composer textarea').value.trim() === 'alpacas'");
  t.strictSame(complaints, []);
});

t.test('two answers that a reload cut off continue', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  engine.script = async function* (_request, signal) {
    yield { content: 'The first half' };
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  };
  const { page, complaints } = await openPage(t, 'chromium', url);
  await page.getByRole('button', { name: 'Two models side by side' }).click();
  await say(page, 'tell me');
  const answers = page.locator('.pair article.answer');
  const halves = answers.getByText('The first half');
  await halves.nth(1).waitFor();
  // Until it is saved.
  await page.waitForTimeout(2_500);
  engine.script = async function* () {
    yield { content: ' and the second.' };
  };
  await page.reload();
  await answers.getByText('The first half and the second.').nth(1).waitFor();
  t.equal(engine.requests.length, 4);
  for (const { messages } of engine.requests.slice(2)) t.match(JSON.parse(messages), [{ content: 'tell me' }, { content: 'The first half' }]);
  t.strictSame(complaints, []);
});

t.test('tools that are not in a list are not left out unsaid', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await page.getByRole('button', { name: 'Chat settings' }).click();
  await page.getByText('Tools (you type the results)').click();
  await page.getByRole('textbox', { name: 'Tools' }).fill('{"type": "function", "function": {"name": "weather"}}');
  await page.getByRole('button', { name: 'Close settings' }).click();
  await say(page, 'Will it rain?');
  await page.getByText('Not sent: the tools in the chat settings are not a JSON list.').waitFor();
  t.equal(engine.requests.length, 0);
  t.strictSame(complaints, []);
});

t.test('?q= fills the box of the chat in the address', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await say(page, 'first');
  await lastAnswer(page);
  const { hash } = new URL(page.url());
  await page.goto('about:blank');
  await page.goto(`${url}/?q=Go%20on${hash}`);
  await lastAnswer(page);
  t.equal(await page.getByRole('textbox', { name: 'Message' }).inputValue(), 'Go on');
});

t.test('an edited JSON answer is JSON', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await page.getByRole('button', { name: 'Chat settings' }).click();
  await page.getByText('Answer as JSON with this schema').first().click();
  await page.getByRole('textbox', { name: 'Answer as JSON with this schema' }).fill('{"type": "object"}');
  await page.keyboard.press('Escape');
  engine.script = async function* () {
    yield { content: '{"n": 1}' };
  };
  await say(page, 'count');
  await page.getByText('Valid JSON').waitFor();
  await page.getByRole('button', { name: 'Edit answer' }).click();
  await page.getByRole('textbox', { name: 'Text' }).fill('{"n": "*2*"}');
  await page.keyboard.press('Control+Enter');
  await page.locator('article.answer .branches').waitFor();
  t.equal(await page.getByRole('region', { name: 'JSON' }).textContent(), '{\n  "n": "*2*"\n}');
});

t.test('text of any script has its direction, and exports keep its letters', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  engine.script = async function* () {
    yield { content: 'Hello.\n\nمرحبا، كيف حالك؟\n\n- مرحبا\n\n```\nمرحبا\n```' };
  };
  await say(page, 'हिन्दी में');
  await lastAnswer(page);
  const directions = (selector: string) => page.locator(selector).evaluateAll((all) => all.map((one) => getComputedStyle(one).direction));
  t.strictSame(await directions('.prose > *'), ['ltr', 'rtl', 'rtl', 'ltr']);
  const box = page.getByRole('textbox', { name: 'Message' });
  await box.fill('مرحبا');
  t.strictSame(await directions('.composer textarea'), ['rtl']);
  await box.press('Enter');
  await page.locator('.said').nth(1).waitFor();
  t.strictSame(await directions('.said'), ['ltr', 'rtl']);
  const entry = page.getByRole('navigation', { name: 'Chats' }).getByRole('listitem');
  const [download] = await Promise.all([page.waitForEvent('download'), act(entry, 'Export as Markdown')]);
  t.equal(download.suggestedFilename(), 'हिन्दी में.md');
});

t.test('the first frame has the theme that was chosen', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url, { colorScheme: 'light' });
  for (let times = 0; times < 2; times++) await page.getByRole('button', { name: /^Color theme/ }).click();
  await page.getByRole('button', { name: 'Color theme: dark' }).waitFor();
  await page.addInitScript(() => {
    const look = () => {
      if (!document.querySelector('.frame')) return requestAnimationFrame(look);
      return Object.assign(window, { first: getComputedStyle(document.body).backgroundColor });
    };
    requestAnimationFrame(look);
  });
  await page.reload();
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  t.equal(await page.evaluate('window.first'), await page.evaluate('getComputedStyle(document.body).backgroundColor'));
  t.equal(await page.evaluate('window.first'), 'rgb(23, 24, 26)');
});

t.test('an address of no view shows the chat', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', `${url}/#/constructor`);
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
});
