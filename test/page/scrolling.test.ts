// The view follows an answer to its end, unless the user scrolls up.
import t from 'tap';
import { FakeEngine } from '../server/fake-engine.js';
import { startApp } from '../server/app-under-test.js';
import { closeBrowsers, comesTrue, lastAnswer, missing, openPage, say, type BrowserName } from './browsers.js';
import { deferred } from '../deferred.js';

t.teardown(closeBrowsers);

const box = "document.querySelector('.scroller')";
const toEnd = `${box}.scrollHeight - ${box}.scrollTop - ${box}.clientHeight`;

for (const browser of ['chromium', 'firefox'] satisfies BrowserName[]) {
  t.test(`${browser} shows the end of answers that come in large pieces`, { skip: missing(browser) }, async (t) => {
    const engine = new FakeEngine();
    engine.script = async function* () {
      for (let at = 0; at < 12; at++) {
        yield { content: `Piece ${at}\n\nof several\n\nlines\n\n` };
        await new Promise((resolve) => setTimeout(resolve, 15));
      }
    };
    const { url } = await startApp(t, {}, engine);
    const { page, complaints } = await openPage(t, browser, url);
    for (let times = 1; times <= 6; times++) {
      await say(page, 'Tell me a story');
      await page.locator('article.answer').nth(times - 1).locator('.numbers').waitFor();
      await comesTrue(page, `${toEnd} < 2`);
    }
    t.strictSame(complaints, []);
  });
}

t.test('a user who scrolls up in an answer stays there, and follows it again from its end', { skip: missing('chromium') }, async (t) => {
  const engine = new FakeEngine();
  let gate = deferred();
  engine.script = async function* () {
    for (let at = 0; at < 3; at++) {
      yield { content: 'A line\n\n'.repeat(60) };
      await gate.promise;
      gate = deferred();
    }
  };
  const { url } = await startApp(t, {}, engine);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await say(page, 'Tell me a story');
  await comesTrue(page, `${box}.scrollTop > 500 && ${toEnd} < 2`);
  await page.locator('article.answer').hover();
  await page.mouse.wheel(0, -300);
  await comesTrue(page, `${toEnd} > 200`);
  const { height, top } = await page.evaluate(`({ height: ${box}.scrollHeight, top: ${box}.scrollTop })`) as { height: number; top: number };
  gate.resolve();
  await comesTrue(page, `${box}.scrollHeight > ${height + 500}`);
  t.equal(await page.evaluate(`${box}.scrollTop`), top);
  await page.mouse.wheel(0, 100_000);
  await comesTrue(page, `${toEnd} < 2`);
  gate.resolve();
  await comesTrue(page, `${box}.scrollHeight > ${height + 3_000}`);
  await comesTrue(page, `${toEnd} < 2`);
  gate.resolve();
  await lastAnswer(page);
  t.strictSame(complaints, []);
});
