// The chat in real browsers, with the built-in model behind it.
import t, { type Test } from 'tap';
import { RecuaError } from '#recua/errors.js';
import { startApp, until } from '../server/app-under-test.js';
import { hang, type FakeEngine } from '../server/fake-engine.js';
import { startReal } from '../server/real-app.js';
import { deferred } from '../deferred.js';
import { act, attach, closeBrowsers, comesTrue, lastAnswer, missing, openPage, say, turnTo, type BrowserName } from './browsers.js';
import type { Page } from 'playwright-core';

t.teardown(closeBrowsers);

for (const name of ['chromium', 'firefox'] satisfies BrowserName[]) {
  t.test(`a chat in ${name}`, { skip: missing(name) }, async (t) => {
    const { url } = await startReal(t);
    const { page, asked, complaints } = await openPage(t, name, url);

    await t.test('a message gets an answer, with numbers below', async (t) => {
      await say(page, 'Hello! Who are you?');
      t.match(await lastAnswer(page), /\d+ tokens\n[\d.,]+ tok\/s\n.* to first token\nprompt \d+, \d+ cached/);
      t.match(page.url(), /#\/chat\//);
    });

    await t.test('the next message continues the chat, and is there after a reload', async (t) => {
      await say(page, 'And what else?');
      await page.locator('article.answer').nth(1).waitFor();
      const answer = await lastAnswer(page);
      await page.reload();
      await page.locator('article.answer').last().locator('.prose p').first().waitFor();
      t.equal(await page.locator('article.user').count(), 2);
      t.equal(await lastAnswer(page), answer);
      t.match(answer, /prompt \d+, [1-9]\d* cached/, 'what was said before is not read again');
    });

    await t.test('regenerating and editing keep the earlier versions', async (t) => {
      await page.getByRole('button', { name: 'Regenerate' }).last().click();
      await page.locator('article.answer .branches').getByText('2/2').waitFor();
      await lastAnswer(page);
      await page.getByRole('button', { name: 'Previous version' }).click();
      await page.locator('article.answer .branches').getByText('1/2').waitFor();

      await page.locator('article.user').last().hover();
      await page.getByRole('button', { name: 'Edit and resend' }).last().click();
      await page.locator('.editor textarea').fill('Something else');
      await page.getByRole('button', { name: 'Send', exact: true }).first().click();
      await page.locator('article.user').last().getByText('2/2').waitFor();
      await lastAnswer(page);
      t.equal(await page.locator('article.user .said').last().innerText(), 'Something else');
      await page.getByRole('button', { name: 'Previous version' }).first().click();
      t.equal(await page.locator('article.user .said').last().innerText(), 'And what else?');
    });

    await t.test('a message further up can be edited, too', async (t) => {
      await say(page, 'And then?');
      await page.locator('article.user').nth(2).waitFor();
      await lastAnswer(page);
      const first = page.locator('article.user').first();
      await first.locator('.said').hover();
      await first.getByRole('button', { name: 'Edit and resend' }).click();
      t.equal(await first.getByRole('textbox').inputValue(), 'Hello! Who are you?');
      await first.getByRole('button', { name: 'Cancel' }).click();
    });

    t.strictSame(complaints, []);
    t.strictSame(asked.filter((address) => !address.startsWith(url)), []);
  });
}

t.test('the settings of a chat are sent with its requests', { skip: missing('chromium') }, async (t) => {
  const { url } = await startReal(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await page.getByRole('button', { name: 'Chat settings' }).click();
  const settings = page.getByRole('complementary', { name: 'Chat settings' });
  await t.test('empty fields show the defaults of the server', async (t) => {
    await settings.locator('input[placeholder="0.7"]').waitFor();
    t.equal(await settings.getByLabel('Top K').getAttribute('placeholder'), '40');
  });
  await settings.getByLabel('System prompt').fill('You are brief.');
  await settings.getByLabel('Max tokens').fill('40');
  await settings.getByLabel('Temperature').fill('0');
  await settings.getByText('Answer as JSON with this schema').click();
  await settings.getByRole('textbox', { name: 'Answer as JSON with this schema' }).fill('{"type": "object", "properties": {"city": {"enum": ["Lima", "Cusco"]}}, "required": ["city"], "additionalProperties": false}');
  await settings.getByRole('button', { name: 'Close settings' }).click();
  const sent = page.waitForRequest((request) => request.url().endsWith('/v1/chat/completions'));
  await say(page, 'A city');
  t.match((await sent).postDataJSON(), { temperature: 0, max_tokens: 40, messages: [{ role: 'system', content: 'You are brief.' }, { role: 'user', content: 'A city' }], response_format: { type: 'json_schema' } });
  t.match(await lastAnswer(page), /Valid JSON\s+\{\s+"city": "(Lima|Cusco)"\s+\}/);
  await page.getByRole('button', { name: 'Chat settings' }).click();
  const temperature = settings.getByLabel('Temperature');
  await temperature.fill('9999');
  await temperature.blur();
  await settings.getByRole('alert').getByText('It must be a number from 0 to 100.').waitFor();
  t.equal(await temperature.getAttribute('aria-invalid'), 'true');
  await say(page, 'Another city');
  await page.getByText('Not sent: Temperature in the chat settings must be a number from 0 to 100.').waitFor();
  await temperature.fill('0.15');
  await temperature.blur();
  await settings.getByRole('alert').waitFor({ state: 'detached' });
  await settings.getByRole('textbox', { name: 'Answer as JSON with this schema' }).fill('{bad');
  await settings.getByRole('button', { name: 'Close settings' }).click();
  await say(page, 'Another city');
  await page.getByText('Not sent: the schema in the chat settings is not a JSON object.').waitFor();
  t.equal(await page.locator('article.user').count(), 1);
  await page.getByText('Valid JSON', { exact: true }).waitFor();
  t.equal(await page.getByRole('textbox', { name: 'Message' }).inputValue(), 'Another city', 'the text stays in the box');
  await page.getByRole('button', { name: 'Regenerate' }).click();
  await page.getByRole('button', { name: 'Edit and resend' }).click();
  await page.locator('article.user').getByRole('button', { name: 'Send' }).click();
  t.equal(await page.locator('article.user .editor').count(), 1, 'the editor stays open');
  t.equal(await page.locator('.branches').count(), 0, 'neither a question nor an answer has another version');
  await page.getByRole('button', { name: 'Chat settings' }).click();
  const schema = settings.getByRole('textbox', { name: 'Answer as JSON with this schema' });
  await schema.fill('');
  await schema.blur();
  t.ok(await schema.isVisible(), 'a cleared field stays open');
  await page.locator('article.user').getByRole('button', { name: 'Cancel' }).click();
  await say(page, 'In words');
  await page.getByText(/^Not sent/).waitFor({ state: 'detached' });
  await lastAnswer(page);
  t.equal(await page.locator('.json-view').count(), 1, 'each answer is shown as what it was asked to be');
  t.strictSame(complaints, []);
});

t.test('a new chat keeps the message and the files that were not sent', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  const box = page.getByRole('textbox', { name: 'Message' });
  await box.fill('Not sent');
  await attach(page, 'notes.txt', 'some notes');
  await page.getByRole('button', { name: 'New chat' }).first().click();
  t.equal(await box.inputValue(), 'Not sent');
  await page.getByText('notes.txt').waitFor();
  await box.press('Enter');
  await lastAnswer(page);
  await page.getByRole('button', { name: 'New chat' }).first().click();
  await page.locator('article.user').first().waitFor({ state: 'detached' });
  t.equal(await box.inputValue(), '');
  await box.fill('For later');
  await page.getByRole('navigation', { name: 'Chats' }).getByRole('link').first().click();
  await page.locator('article.user').first().waitFor();
  t.equal(await box.inputValue(), '');
  await page.getByRole('button', { name: 'New chat' }).first().click();
  await page.locator('article.user').first().waitFor({ state: 'detached' });
  t.equal(await box.inputValue(), 'For later');
  t.equal(engine.requests.length, 1);
});

t.test('Escape in an editor closes it and stops no answer', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await say(page, 'First');
  await lastAnswer(page);
  await page.locator('article.user').getByRole('button', { name: 'Edit and resend' }).click();
  const editor = page.locator('.editor textarea');
  await editor.fill('First, again');
  engine.script = hang;
  await say(page, 'Second');
  await page.getByRole('button', { name: 'Stop', exact: true }).waitFor();
  await until(() => engine.running.size === 1);
  t.equal(await page.locator('.editor').getByRole('button', { name: 'Send' }).isDisabled(), true);
  await editor.press('Control+Enter');
  await editor.press('Escape');
  await editor.waitFor({ state: 'detached' });
  t.equal(await page.getByRole('button', { name: 'Stop', exact: true }).count(), 1, 'the answer goes on');
  t.equal(engine.requests.length, 2);
  await page.keyboard.press('Escape');
  await page.getByText('stopped', { exact: true }).waitFor();
});

t.test('what is typed into a setting stays while the panel is drawn again', { skip: missing('chromium') }, async (t) => {
  const { url } = await startReal(t);
  const { page } = await openPage(t, 'chromium', url);
  let tell: () => void = () => undefined;
  const told = new Promise<void>((resolve) => { tell = resolve; });
  await page.route(/\/props\?/, async (route) => {
    await told;
    await route.continue();
  });
  await page.getByRole('button', { name: 'Chat settings' }).click();
  const settings = page.getByRole('complementary', { name: 'Chat settings' });
  const field = settings.getByLabel('Temperature');
  await field.pressSequentially('0.05');
  tell();
  await settings.locator('[placeholder="40"]').waitFor();
  t.equal(await field.inputValue(), '0.05', 'the defaults of the server arrived meanwhile');
  await page.getByRole('textbox', { name: 'Message' }).focus();
  await page.keyboard.press('Escape');
  await settings.waitFor({ state: 'detached' });
  const sent = page.waitForRequest((request) => request.url().endsWith('/v1/chat/completions'));
  await say(page, 'Hello');
  t.match((await sent).postDataJSON(), { temperature: 0.05 });
});

t.test('the gauge follows an answer being written, and keeps what was stopped', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  engine.script = async function* (request, signal) {
    const usage = { promptTokens: 100, cachedTokens: 40, completionTokens: 23 };
    yield { content: 'So far', soFar: { usage, timings: { queueMs: 0, promptMs: 10, generateMs: 100 } } };
    yield* hang(request, signal);
  };
  const { page } = await openPage(t, 'chromium', url);
  await say(page, 'Count');
  await page.getByText(/^123 \/ [\d,]+ tokens$/).waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  t.match(await lastAnswer(page), /So far[^]*23 tokens\n230 tok\/s[^]*prompt 100, 40 cached\nstopped/);
  t.ok(await page.getByText(/^123 \/ [\d,]+ tokens$/).isVisible());
});

t.test('an answer that failed before its first word has one button, to try again', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  engine.script = () => { throw new RecuaError('model_crashed', 'The model crashed.'); };
  const { page } = await openPage(t, 'chromium', url);
  await say(page, 'Count');
  await page.getByRole('button', { name: 'Try again' }).waitFor();
  t.strictSame(await page.locator('article.answer button:visible').allInnerTexts(), ['Try again']);
});

t.test('a cut answer can be continued, and two models answer side by side', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t, { maxTokens: 3 });
  const count = engine.script = async function* () {
    for (const word of ['One', ' two', ' three', ' four']) {
      await new Promise(setImmediate);
      yield { content: word };
    }
  };
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'Count');
  t.match(await lastAnswer(page), /^One two three\n[^]*reached the token limit/);
  // A second click, before the button is drawn again, changes nothing.
  await page.getByRole('button', { name: 'Continue this answer' }).evaluate((button) => {
    const { click } = button as { click?(): void };
    click?.call(button);
    click?.call(button);
  });
  // In one paragraph.
  await page.locator('article.answer .prose > p', { hasText: /^One two threeOne two three$/ }).waitFor();
  t.match(JSON.parse(engine.requests.at(-1)!.messages), [{ role: 'user' }, { role: 'assistant', content: 'One two three' }]);
  await page.locator('.numbers').getByText('6 tokens').waitFor();
  t.equal(await page.getByText('Another tab').count(), 0);
  t.equal(engine.requests.length, 2);
  engine.script = async function* () { await new Promise(setImmediate); };
  await page.getByRole('button', { name: 'Continue this answer' }).click();
  await page.getByText('The model had nothing to add.').waitFor();
  engine.script = count;

  await page.getByRole('button', { name: 'Two models side by side' }).click();
  await say(page, 'Again');
  await page.getByRole('button', { name: 'Chosen' }).waitFor();
  t.equal(await page.locator('.pair-side article.answer').count(), 2);
  await page.locator('.pair-side').first().getByRole('button', { name: 'Chosen' }).waitFor();
  await page.getByRole('button', { name: 'Continue with this answer' }).click();
  await page.locator('.pair-side').nth(1).getByRole('button', { name: 'Chosen' }).waitFor();
  await page.getByRole('button', { name: 'Two models side by side' }).click();
  await say(page, 'And on');
  await page.locator('article.user').nth(2).waitFor();
  await lastAnswer(page);
  t.equal(JSON.parse(engine.requests.at(-1)!.messages).length, 5, 'one of the two is what was said');
  t.strictSame(complaints, []);
});

t.test('the message box', { skip: missing('chromium') }, async (t) => {
  const { url } = await startReal(t);
  const { page, asked } = await openPage(t, 'chromium', `${url}/?q=What%20is%20a%20recua%3F`);
  const box = page.getByRole('textbox', { name: 'Message' });

  await t.test('is filled by ?q= and sends nothing', async (t) => {
    t.equal(await box.inputValue(), 'What is a recua?');
    await page.getByText(/^\d+ \/ [\d,]+ tokens$/).waitFor();
    t.notOk(asked.some((address) => address.includes('completions')));
    t.notMatch(page.url(), /q=/);
  });

  await t.test('counts tokens while the user types', async () => {
    await box.fill('one two three four five');
    await page.getByText(/^([5-9]|\d\d+) \/ [\d,]+ tokens$/).waitFor();
  });

  await t.test('takes text files, and turns a long pasted text into a file', async (t) => {
    await page.getByLabel('Files to attach').setInputFiles([
      { name: 'llamas.csv', mimeType: 'text/csv', buffer: Buffer.from('name,load\nYana,30\n') },
      { name: 'picture.bin', mimeType: 'application/octet-stream', buffer: Buffer.from([0xff, 0xfe, 0x00]) },
      { name: 'other.bin', mimeType: 'application/octet-stream', buffer: Buffer.from([0xff, 0xfe, 0x00]) },
    ]);
    const refused = page.getByRole('status').getByText(/picture\.bin is not text.* other\.bin is not text/);
    await refused.waitFor();
    await page.getByRole('button', { name: 'Close this notice' }).click();
    await page.evaluate('new Promise(requestAnimationFrame)');
    t.equal(await refused.count(), 0);
    await box.focus();
    await page.evaluate(`(() => { const data = new DataTransfer(); data.setData('text/plain', 'x'.repeat(5000)); document.activeElement.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true })); })()`);
    await page.getByText('pasted-1.txt').waitFor();
    await page.getByRole('button', { name: 'Remove pasted-1.txt' }).click();
    const sent = page.waitForRequest((request) => request.url().endsWith('/v1/chat/completions'));
    await say(page, 'Whose load?');
    t.equal((await sent).postDataJSON().messages[0].content, 'File llamas.csv:\n```\nname,load\nYana,30\n\n```\n\nWhose load?');
    await lastAnswer(page);
  });
});

t.test('conversations are searched, renamed, pinned, exported, deleted and imported again', { skip: missing('chromium') }, async (t) => {
  const { url } = await startReal(t);
  const { page } = await openPage(t, 'chromium', url);
  const entries = page.getByRole('navigation', { name: 'Chats' }).getByRole('listitem');
  await say(page, 'Tell me of apples');
  await lastAnswer(page);
  await page.getByRole('button', { name: 'New chat' }).first().click();
  await attach(page, 'cities.txt', 'Lima');
  await say(page, 'Tell me of pears');
  await lastAnswer(page);
  t.equal(await entries.count(), 2);

  await page.getByRole('searchbox', { name: 'Search chats' }).fill('lima');
  await entries.nth(1).waitFor({ state: 'detached' });
  t.match(await entries.first().textContent(), /pears/, 'attached files are searched');
  await page.getByRole('searchbox', { name: 'Search chats' }).fill('APPLES');
  await entries.getByText('Tell me of apples').waitFor();
  await entries.nth(1).waitFor({ state: 'detached' });
  const apples = entries.first();
  await apples.hover();
  await apples.getByRole('button', { name: /^Actions for/ }).click();
  await apples.getByRole('button', { name: 'Rename' }).click();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  t.match(await page.evaluate(() => document.activeElement?.getAttribute('aria-label')), /^Actions for /, 'the focus comes back');
  await page.keyboard.press('Enter');
  await apples.getByRole('button', { name: 'Rename' }).click();
  await page.getByRole('dialog').getByRole('textbox').fill('Fruit');
  await page.keyboard.press('Enter');
  await entries.getByText('Fruit').waitFor();
  await page.getByRole('searchbox', { name: 'Search chats' }).fill('');

  const fruit = entries.filter({ hasText: 'Fruit' });
  await fruit.hover();
  await fruit.getByRole('button', { name: /^Actions for/ }).click();
  await fruit.getByRole('button', { name: 'Pin', exact: true }).click();
  await page.getByRole('heading', { name: 'Pinned' }).waitFor();

  await fruit.getByRole('button', { name: /^Actions for/ }).click();
  const downloading = page.waitForEvent('download');
  await fruit.getByRole('button', { name: 'Export as JSON' }).click();
  const file = await (await downloading).path();

  await fruit.getByRole('button', { name: /^Actions for/ }).click();
  await fruit.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await entries.nth(1).waitFor({ state: 'detached' });

  const importing = page.getByLabel('File to import');
  await importing.setInputFiles(file);
  await page.getByText('1 chat imported', { exact: true }).waitFor();
  await entries.getByText('Fruit').click();
  await page.locator('article.user .said').getByText('apples').waitFor();
  t.equal(await page.locator('article.user .said').innerText(), 'Tell me of apples');

  const exporting = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export all' }).click();
  const all = await (await exporting).path();
  await importing.setInputFiles(all);
  await page.getByText('0 chats imported, 2 skipped: already in this browser').waitFor();
  await importing.setInputFiles(file);
  await page.getByText('0 chats imported, 1 skipped: already in this browser').waitFor();
  t.equal(await entries.count(), 2, 'an imported chat has other ids than its file');
  await importing.setInputFiles({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('Hi') });
  await page.getByText('notes.txt contains no chats of this page. Import takes').waitFor();
  await page.reload();
  await page.locator('article.user .said').getByText('apples').waitFor();
  t.equal(await page.locator('article.user .said').innerText(), 'Tell me of apples');
});

t.test('a file goes into the chat it was added to, even after the user left that chat', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'first chat');
  await lastAnswer(page);
  const address = page.url();
  // A slow disk: the file is read when the test allows it.
  await page.evaluate('{ const read = File.prototype.arrayBuffer; File.prototype.arrayBuffer = async function () { await new Promise((resolve) => { window.letRead = resolve; }); return read.call(this); }; }');
  await page.getByLabel('Files to attach').setInputFiles({ name: 'table.csv', mimeType: 'text/csv', buffer: Buffer.from('a,b\n1,2\n') });
  await comesTrue(page, 'window.letRead !== undefined');
  t.ok(await page.getByRole('button', { name: 'Send', exact: true }).isDisabled());
  await page.getByRole('button', { name: 'New chat' }).first().click();
  await page.getByRole('heading', { name: 'Start a chat' }).waitFor();
  await say(page, 'second chat');
  await lastAnswer(page);
  await page.evaluate('window.letRead()');
  t.strictSame(JSON.parse(engine.requests.at(-1)!.messages), [{ role: 'user', content: 'second chat' }], 'not into the other chat');
  t.equal(await page.getByRole('list', { name: 'Attached files' }).count(), 0);
  await page.evaluate(`location.href = ${JSON.stringify(address)}`);
  await page.getByRole('button', { name: 'Remove table.csv' }).waitFor();
  await say(page, 'what is in it?');
  await page.locator('article.answer').nth(1).locator('.numbers').waitFor();
  t.match(JSON.parse(engine.requests.at(-1)!.messages).at(-1).content, /^File table\.csv:\n```\na,b\n1,2\n\n```\n\nwhat is in it\?$/);
  t.strictSame(complaints, []);
});

t.test('the first file of the page names all modules that it starts with', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page, asked } = await openPage(t, 'chromium', url);
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  const html = await (await fetch(url, { headers: { accept: 'text/html' } })).text();
  const named = [...html.matchAll(/(?:src|href)="(ui\/[^"]+\.js)"/g)].map(([, path]) => `${url}/${path}`);
  const modules = asked.filter((address) => address.endsWith('.js'));
  t.strictSame([...new Set(modules)].sort(), named.sort());
  t.equal(asked.filter((address) => address.endsWith('.css')).length, 1, 'and nothing is painted before its one style sheet is there');
});

/** The next answer writes its first half, and no more. */
function stopHalfWay(t: Test, engine: FakeEngine): void {
  const stopped = new AbortController();
  t.teardown(() => stopped.abort());
  engine.script = async function* () {
    yield { content: 'The first half' };
    await new Promise<void>((resolve) => stopped.signal.addEventListener('abort', () => resolve()));
  };
}

/** Another tab with the chat, opened while this one writes an answer. */
async function openDuringAnswer(page: Page): Promise<Page> {
  await say(page, 'tell me');
  await page.locator('article.answer .prose').getByText('The first half').waitFor();
  // The page saves a growing answer every two seconds.
  await page.waitForTimeout(2_500);
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.locator('article.answer .prose').getByText('The first half').waitFor();
  return other;
}

t.test('an answer that a reload cut off continues, in one tab only', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  stopHalfWay(t, engine);
  const other = await openDuringAnswer(page);
  await other.waitForTimeout(500);
  t.equal(engine.requests.length, 1, 'another tab leaves it to the one that writes it');
  await other.close();
  engine.script = async function* () {
    yield { content: ' and the second.' };
  };
  await page.reload();
  await page.locator('article.answer .prose').getByText('The first half and the second.').waitFor();
  t.match(JSON.parse(engine.requests.at(-1)!.messages), [{ role: 'user', content: 'tell me' }, { role: 'assistant', content: 'The first half' }]);
  t.equal(engine.requests.length, 2);
  t.strictSame(complaints, []);
});

t.test('a reload loses nothing of an answer that has just begun', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  stopHalfWay(t, engine);
  await say(page, 'tell me');
  await page.locator('article.answer .prose').getByText('The first half').waitFor();
  engine.script = async function* () {
    yield { content: ' and the second.' };
  };
  // Loaded again before it has read its chats: its database does not open the first time.
  await page.addInitScript(() => {
    if (sessionStorage.getItem('stalls') === null) return;
    sessionStorage.removeItem('stalls');
    IDBFactory.prototype.open = () => Object.assign(window, { isStalled: true }) && new EventTarget() as IDBOpenDBRequest;
  });
  await page.evaluate(() => sessionStorage.setItem('stalls', 'once'));
  await page.reload();
  t.equal(await page.evaluate(() => sessionStorage.getItem('stalls')), null);
  await comesTrue(page, 'window.isStalled');
  await page.reload();
  await page.locator('article.answer .prose').getByText('The first half and the second.').waitFor();
  t.match(JSON.parse(engine.requests.at(-1)!.messages), [{ role: 'user', content: 'tell me' }, { role: 'assistant', content: 'The first half' }]);
  await page.reload();
  await page.locator('article.answer .prose').getByText('The first half and the second.').waitFor();
  t.equal(engine.requests.length, 2);
  t.strictSame(complaints, []);
});

t.test('an answer that one tab writes is whole in another, which leaves it alone meanwhile', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  const { promise: finished, resolve: finish } = deferred();
  engine.script = async function* () {
    yield { content: 'The first half' };
    await finished;
    yield { content: ' and the second.' };
  };
  const other = await openDuringAnswer(page);
  await other.getByRole('button', { name: 'Continue this answer' }).click();
  await other.getByText('Another tab is writing this answer.').waitFor();
  t.equal(engine.requests.length, 1);
  finish();
  await other.locator('article.answer .prose').getByText('The first half and the second.').waitFor();
  engine.script = async function* () {
    yield { content: 'More.' };
  };
  await say(page, 'go on');
  await page.locator('article.answer').nth(1).locator('.numbers').waitFor();
  await turnTo(other);
  await other.locator('article.answer .prose').getByText('More.').waitFor();
  await say(other, 'and again');
  await other.locator('article.answer').nth(2).locator('.numbers').waitFor();
  t.strictSame(JSON.parse(engine.requests.at(-1)!.messages).map(({ content }: { content: string }) => content),
    ['tell me', 'The first half and the second.', 'go on', 'More.', 'and again']);
  t.strictSame(complaints, []);
});

t.test('a second tab gets the whole answer although the one that writes it is loaded again', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  stopHalfWay(t, engine);
  const other = await openDuringAnswer(page);
  await say(other, 'not yet');
  await other.getByText('Another tab is writing this answer.').waitFor();
  t.equal(await other.getByRole('textbox', { name: 'Message' }).inputValue(), 'not yet', 'what was written stays');
  t.equal(engine.requests.length, 1);
  engine.script = async function* () {
    yield { content: ' and' };
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    yield { content: ' the second.' };
  };
  await page.reload();
  for (const tab of [page, other]) await tab.locator('article.answer .prose').getByText('The first half and the second.').waitFor();
  t.equal(engine.requests.length, 2);
  t.strictSame(complaints, []);
});

t.test('a chat that one tab deletes does not come back from another', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'first');
  await lastAnswer(page);
  const idle = await page.context().newPage();
  await idle.goto(page.url());
  await idle.locator('article.answer').waitFor();
  engine.script = hang;
  await say(page, 'second');
  await until(() => engine.running.size === 1);
  const other = await page.context().newPage();
  await other.goto(url);
  const entry = other.locator('.conversations li', { hasText: 'first' });
  await act(entry, 'Delete');
  await other.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await entry.waitFor({ state: 'detached' });
  await page.getByText('This chat was deleted in another tab.').waitFor();
  await until(() => engine.running.size === 0);
  // Until it knows that the other tab has stopped, it refuses.
  do await say(idle, 'third');
  while (!await idle.locator('article.user').getByText('third').waitFor({ timeout: 500 }).then(() => true, () => false));
  await idle.getByText('This chat was deleted in another tab.').waitFor();
  t.equal(await idle.locator('article.user').last().innerText(), 'third', 'and can be copied');
  await other.reload();
  await other.getByRole('textbox', { name: 'Message' }).waitFor();
  await other.waitForTimeout(300);
  t.equal(await entry.count(), 0);
  t.strictSame(complaints, []);
});
