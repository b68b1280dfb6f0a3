// PDFs attached to a message: their text goes to the model, in real browsers.
import t from 'tap';
import type { Page } from 'playwright-core';
import { startApp } from '../server/app-under-test.js';
import { closeBrowsers, lastAnswer, missing, openPage, say, type BrowserName } from './browsers.js';
import { pdfOf } from './pdf-file.js';

t.teardown(closeBrowsers);

const attach = (page: Page, name: string, buffer: Buffer) => page.getByLabel('Files to attach').setInputFiles({ name, mimeType: 'application/pdf', buffer });
const listed = (page: Page, name: string) => page.getByRole('list', { name: 'Attached files' }).getByText(name);

for (const name of ['chromium', 'firefox'] satisfies BrowserName[]) {
  t.test(`PDFs in ${name}`, { skip: missing(name) }, async (t) => {
    const { url, engine } = await startApp(t);
    const { page, asked, complaints } = await openPage(t, name, url);

    await t.test('the text goes to the model page by page, in any script', async (t) => {
      t.notOk(asked.some((address) => address.includes('pdf')), 'its reader is loaded with the first PDF');
      await attach(page, 'paper.pdf', pdfOf([['The pack train (of nine)', 'walks to Cusco.'], ['\u7F8A\u9A7C\u8D70\u8DEF']]));
      await listed(page, 'paper.pdf').waitFor();
      await page.getByLabel('Cancel reading paper.pdf').waitFor({ state: 'detached' });
      await say(page, 'What does it say?');
      await lastAnswer(page);
      const { content } = JSON.parse(engine.requests.at(-1)!.messages).at(-1);
      t.equal(content, 'File paper.pdf:\n```\n[page 1]\nThe pack train (of nine)\nwalks to Cusco.\n\n[page 2]\n\u7F8A\u9A7C\u8D70\u8DEF\n\n```\n\nWhat does it say?');
    });

    await t.test('an unreadable file is reported with the reason', async () => {
      await attach(page, 'locked.pdf', pdfOf([['secret']], { locked: true }));
      await page.getByText('locked.pdf is locked with a password. Save a copy without the password and attach that.').waitFor();
      await attach(page, 'scan.pdf', pdfOf([[], []]));
      await page.getByText('scan.pdf has no text: its pages are images. Run OCR on it first, for example with ocrmypdf.').waitFor();
      await attach(page, 'broken.pdf', Buffer.from('%PDF-1.7\nnothing of a PDF\n'));
      await page.getByText('broken.pdf is damaged').waitFor();
      await listed(page, 'broken.pdf').waitFor({ state: 'detached' });
    });

    await t.test('reading a file can be cancelled', async (t) => {
      await page.evaluate('{ const Given = Worker; window.Worker = class extends Given { postMessage() {} }; }');
      await attach(page, 'long.pdf', pdfOf([['one']]));
      await page.getByRole('textbox', { name: 'Message' }).press('Enter');
      await page.getByRole('status').getByText('Not sent yet: long.pdf is still being read.').waitFor();
      await page.getByRole('button', { name: 'Close this notice' }).click();
      await page.getByLabel('Cancel reading long.pdf').click();
      await listed(page, 'long.pdf').waitFor({ state: 'detached' });
      t.equal(await page.getByText(/long\.pdf/).count(), 0, 'without a word');
    });
    t.strictSame(complaints, []);
    t.ok(asked.every((address) => address.startsWith(url) || address.startsWith('blob:')), 'nothing is asked for elsewhere');
  });
}
