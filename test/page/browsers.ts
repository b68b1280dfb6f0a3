// The browsers of this machine, for tests of the page. A test without its browser is skipped, with
// the reason.
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core';
import { chromium, firefox } from 'playwright-core';
import type { Test } from 'tap';

function find(...names: string[]): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

const paths = {
  // The headless shell opens no windows with an interface of their own, and is faster for that.
  chromium: process.env['RECUA_CHROMIUM'] ?? find('chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'),
  firefox: process.env['RECUA_FIREFOX'] ?? find('firefox-esr', 'firefox'),
};

const mostMs = 60_000;

export type BrowserName = keyof typeof paths;

export const missing = (name: BrowserName): string | false => (paths[name] === undefined ? `no ${name} is installed here` : false);

const launched = new Map<BrowserName, Promise<Browser>>();

/** One browser for all tests of a file. */
function launch(name: BrowserName): Promise<Browser> {
  const known = launched.get(name) ?? (name === 'chromium' ? launchChromium() : launchFirefox());
  launched.set(name, known);
  return known;
}

function launchChromium(): Promise<Browser> {
  return chromium.launch({ executablePath: paths.chromium!, args: ['--no-sandbox', '--disable-gpu'] });
}

interface Session {
  send(method: string, params: object): Promise<unknown>;
}

/**
 * The published Firefox, over WebDriver BiDi. Playwright sets the colors of each new window with a
 * command that today's ESR does not know; the Firefox tests set none.
 */
async function launchFirefox(): Promise<Browser> {
  const browser = await firefox.launch({ executablePath: paths.firefox!, channel: 'moz-firefox' });
  const { _connection } = browser as unknown as { _connection: { toImpl(of: object): { _browserSession: Session } } };
  const session = _connection.toImpl(browser)._browserSession;
  const send = session.send.bind(session);
  session.send = (method, params) => (method === 'emulation.setMediaFeaturesOverride' ? Promise.resolve({}) : send(method, params));
  return browser;
}

export async function closeBrowsers(): Promise<void> {
  for (const browser of launched.values()) await (await browser).close();
}

export interface OpenPage {
  page: Page;
  /** Addresses of all requests. */
  asked: string[];
  /** Complaints of the browser: script errors, and violations of the policy. */
  complaints: string[];
}

/** The page in its own window, with its own database. */
export async function openPage(t: Test, name: BrowserName, url: string, options: BrowserContextOptions = {}): Promise<OpenPage> {
  const context = await (await launch(name)).newContext(options);
  // Slow machines take long; a hang is found all the same.
  context.setDefaultTimeout(mostMs);
  const page = await context.newPage();
  const asked: string[] = [];
  const complaints: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    // The page shows what the server refuses, and so does the browser's console.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) complaints.push(message.text());
  });
  t.teardown(async () => {
    // A request that a test answers may still be on its way.
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await context.close();
  });
  await page.goto(url);
  if (url !== 'about:blank') await drawn(page);
  return { page, asked, complaints };
}

/** Waits for what the page draws first. goto() and reload() end before its modules have run. */
export async function drawn(page: Page): Promise<void> {
  await page.locator('.frame nav').first().waitFor({ state: 'attached' });
}

/** The text of the last answer, once it is complete. */
export async function lastAnswer(page: Page): Promise<string> {
  const answer = page.locator('article.answer').last();
  await answer.locator('.numbers').waitFor();
  return await answer.innerText();
}

export async function say(page: Page, text: string): Promise<void> {
  await page.getByRole('textbox', { name: 'Message' }).fill(text);
  await page.keyboard.press('Enter');
}

/**
 * Waits until this is true in the page. page.waitForFunction looks again by eval, which the page's
 * Content-Security-Policy refuses.
 */
export async function comesTrue(page: Page, expression: string): Promise<void> {
  for (const endMs = performance.now() + mostMs; !await page.evaluate(expression); await page.waitForTimeout(50)) {
    if (performance.now() > endMs) throw new Error(`never came true in the page: ${expression}`);
  }
}

/** Attaches a file, and waits until it was read. */
export async function attach(page: Page, name: string, content: string | Buffer, mimeType = 'text/plain'): Promise<void> {
  await page.getByLabel('Files to attach').setInputFiles({ name, mimeType, buffer: Buffer.from(content) });
  await page.getByRole('button', { name: `Remove ${name}` }).waitFor();
}

/** Chooses from the menu of a chat in the list. */
export async function act(entry: Locator, action: string): Promise<void> {
  await entry.hover();
  await entry.getByRole('button', { name: /^Actions for/ }).click();
  await entry.getByRole('button', { name: action, exact: true }).click();
}

/** As when the user turns to the tab. */
export const turnTo = (page: Page): Promise<unknown> => page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
