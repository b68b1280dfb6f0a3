// Answers over a connection that breaks, in real browsers.
import t, { type Test } from 'tap';
import { startApp } from '../server/app-under-test.js';
import type { FakeEngine } from '../server/fake-engine.js';
import type { Request } from 'playwright-core';
import { closeBrowsers, lastAnswer, missing, openPage, say, type BrowserName } from './browsers.js';
import { cable } from './connection.js';

t.teardown(closeBrowsers);

/** An answer that hangs after this text until the test ends. */
function stalls(t: Test, engine: FakeEngine, text: string): void {
  const ended = new Promise<void>((resolve) => t.teardown(resolve));
  const usage = { promptTokens: 3, completionTokens: 5, cachedTokens: 0 };
  engine.script = async function* () {
    yield { content: text, soFar: { usage, timings: { queueMs: 0, promptMs: 1, generateMs: 1 } } };
    await ended;
  };
}

const goesOn = async function* () {
  yield { content: ' and the second.' };
};

for (const name of ['chromium', 'firefox'] satisfies BrowserName[]) {
  t.test(`an answer continues after a broken connection in ${name}`, { skip: missing(name) }, async (t) => {
    const { url, engine } = await startApp(t);
    const line = await cable(t, url);
    const { page, complaints } = await openPage(t, name, line.url);
    const prose = page.locator('article.answer .prose');
    stalls(t, engine, 'The first half');
    await say(page, 'tell me');
    await prose.getByText('The first half').waitFor();
    line.cut();
    await page.getByText('Reconnecting…').waitFor();
    t.equal(await page.getByRole('button', { name: 'Stop', exact: true }).count(), 1, 'it can be given up');
    engine.script = goesOn;
    line.mend();
    await prose.getByText('The first half and the second.').waitFor();
    await lastAnswer(page);
    t.equal(await page.getByText('Reconnecting…').count(), 0);
    t.equal(await page.locator('article.answer .error').count(), 0);
    t.match(JSON.parse(engine.requests.at(-1)!.messages), [{ role: 'user' }, { role: 'assistant', content: 'The first half' }]);
    t.strictSame(engine.requests.map(({ maxTokens }) => maxTokens), [2_048, 2_043], 'the rest may have as many tokens as were left');
    t.strictSame(complaints.filter((one) => !/network|connection/i.test(one)), []);
  });
}

t.test('a page whose modules do not come says so', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await page.route(/\/ui\/main\.js$/, (route) => route.abort());
  await page.reload();
  await page.getByRole('alert').getByText('The page cannot be loaded from the server. Reload it.').waitFor();
  await page.unroute(/\/ui\/main\.js$/);
  await page.reload();
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
});

t.test('an answer that lacks only the end of its stream is complete', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  engine.script = goesOn;
  const pieces = [{ delta: { content: 'All of it.' } }, { delta: {}, finish_reason: 'stop' }];
  const body = pieces.map((choice) => `data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`).join('');
  await page.route(/\/v1\/chat\/completions/, (route) => route.fulfill({ contentType: 'text/event-stream', body }), { times: 1 });
  await say(page, 'tell me');
  await lastAnswer(page);
  await page.locator('article.answer .numbers').waitFor();
  t.equal((await page.locator('article.answer .prose').innerText()).trim(), 'All of it.');
  t.equal(engine.requests.length, 0, 'it is not continued');
  t.strictSame(complaints, []);
});

t.test('the page does not ask a restarted server by itself', { skip: missing('chromium') }, async (t) => {
  const first = await startApp(t);
  const line = await cable(t, first.url);
  const { page } = await openPage(t, 'chromium', line.url);
  stalls(t, first.engine, 'The first half');
  const asked: Request[] = [];
  page.on('request', (request) => void (request.url().endsWith('/ui/server') && asked.push(request)));
  await say(page, 'tell me');
  await page.locator('article.answer .prose').getByText('The first half').waitFor();
  // It knows which server this is.
  for (const request of asked) await (await request.response())!.finished();
  line.cut();
  const { url, engine } = await startApp(t);
  engine.script = goesOn;
  line.mend(url);
  await page.getByRole('alert').getByText('The server restarted and lost this answer').waitFor();
  t.equal(engine.requests.length, 0);
  await page.getByRole('button', { name: 'Continue', exact: true }).click();
  await page.locator('article.answer .prose').getByText('The first half and the second.').waitFor();
  t.equal(await page.getByRole('alert').count(), 0);
});

t.test('the user can stop while the page waits for the server, and half a JSON answer is asked for again', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const line = await cable(t, url);
  const { page } = await openPage(t, 'chromium', line.url);
  stalls(t, engine, '{"city": "Li');
  await say(page, 'a city');
  await page.locator('article.answer .prose').getByText('{"city": "Li').waitFor();
  line.cut();
  await page.getByText('Reconnecting…').waitFor();
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await page.getByText('stopped', { exact: true }).waitFor();
  line.mend();

  await page.getByRole('button', { name: 'New chat' }).first().click();
  await page.getByRole('button', { name: 'Chat settings' }).click();
  await page.getByText('Answer as JSON with this schema').click();
  await page.getByRole('textbox', { name: 'Answer as JSON with this schema' }).fill('{"type": "object"}');
  await say(page, 'a city');
  await page.locator('article.answer .prose').getByText('{"city": "Li').waitFor();
  line.cut();
  await page.getByText('Reconnecting…').waitFor();
  engine.script = async function* () {
    yield { content: '{"city": "Cusco"}' };
  };
  line.mend();
  await page.getByText('Valid JSON').waitFor();
  t.match(JSON.parse(engine.requests.at(-1)!.messages), [{ role: 'user', content: 'a city' }]);
});

t.test('an answer over connections that all break at once fails', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  let asked = 0;
  await page.route(/\/v1\/chat\/completions/, (route) => {
    asked++;
    return route.fulfill({ contentType: 'text/event-stream', body: ': ping\n\n' });
  });
  await say(page, 'tell me');
  await page.getByRole('alert').getByText('The connection ended before the answer was complete.').waitFor();
  t.equal(asked, 5);
  await page.unroute(/\/v1\/chat\/completions/);
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.locator('article.answer .prose').getByText('tell me').waitFor();
});

t.test('the page asks a server that does not respond for its models only once', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const line = await cable(t, url);
  const { page, asked } = await openPage(t, 'chromium', 'about:blank');
  await page.addInitScript('{ const { setInterval } = window; window.setInterval = (work, ms) => setInterval(work, ms / 20); }');
  await page.goto(line.url);
  await page.getByText('runs on this server').waitFor();
  line.silence();
  await page.waitForRequest(() => true, { timeout: 5_000 }).catch(() => undefined);
  const before = asked.length;
  // A browser makes only six connections: answers would wait for one.
  await page.waitForTimeout(2_000);
  t.equal(asked.length, before);
});
