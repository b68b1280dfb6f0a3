// Models: those of the server and of the hub, searched, pulled and deleted.
import t from 'tap';
import type { ModelShelf, OfferedModel } from '#recua/server/http/shelf.js';
import { RecuaError } from '#recua/errors.js';
import { FakeHub } from '../models/fake-hub.js';
import { root, start } from '../cli/recua.js';
import { readFileSync } from 'node:fs';
import { FakeEngine } from '../server/fake-engine.js';
import { startApp } from '../server/app-under-test.js';
import { deferred } from '../deferred.js';
import { closeBrowsers, missing, openPage } from './browsers.js';

t.teardown(closeBrowsers);

const gib = 2 ** 30;
const small: OfferedModel = { name: 'owner/repo:Q4_K_M', file: 'm-Q4_K_M.gguf', quantization: 'Q4_K_M', sizeBytes: gib, storedBytes: 0, memoryBytes: 1.5 * gib, fits: true, recommended: true };
const large: OfferedModel = { ...small, name: 'owner/repo:F16', file: 'm-F16.gguf', quantization: 'F16', sizeBytes: 900 * gib, memoryBytes: 1_000 * gib, fits: false, recommended: false };

t.test('models are searched for, pulled with progress, paused, and deleted after a question', { skip: missing('chromium') }, async (t) => {
  const removed: string[] = [];
  /** Names that the server was started with. */
  const own: string[] = [];
  let pulls = 0;
  let isAway = true;
  const { promise: held, resolve: finish } = deferred();
  const file = { digest: 'sha256:abcdef0123456789', totalBytes: 4 * 2 ** 20 };
  const shelf: ModelShelf = {
    search: async (words) => {
      if (words === 'offline') throw new RecuaError('hub_offline', 'HF_HUB_OFFLINE is set, so nothing is asked.');
      if (words === 'repo' && isAway) throw new RecuaError('hub_unreachable', 'The hub is away.');
      return words === 'nothing' ? [] : [{ name: 'owner/repo', downloads: 12_345, likes: 6, gated: false }, { name: 'other/gated', downloads: 1, likes: 0, gated: true }];
    },
    offers: async (repository) => {
      if (repository !== 'owner/repo') throw new RecuaError('repository_not_found', `There is no repository ${repository}.`);
      return [small, large];
    },
    open: async (name, signal) => {
      if (name !== 'owner/repo:Q4_K_M') throw new RecuaError('model_not_found', `There is no ${name} on the hub.`);
      const gone = new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
      pulls++;
      return {
        files: [file],
        run: async (told) => {
          told(file, pulls * 2 ** 20);
          await Promise.race([held, gone]);
          told(file, file.totalBytes);
        },
      };
    },
    remove: async (name) => void removed.push(name),
    copy: async () => undefined,
    unfinished: async () => [],
    aliases: async () => [],
    ownNames: async () => own,
    describe: async () => undefined,
  };
  const { url } = await startApp(t, {}, new FakeEngine(), { shelf });
  const { page, complaints } = await openPage(t, 'chromium', `${url}/#/models`);
  const table = page.getByRole('region', { name: 'Models of this server' });
  t.match(await table.getByRole('row').nth(1).innerText(), /owner\/model\s+loaded[^]*\s1\.0K\s/);

  await page.getByText('This server serves only owner/model.').waitFor();
  const field = page.getByRole('searchbox', { name: 'Get a model from the hub' });
  const ask = async (words: string): Promise<void> => {
    await field.fill(words);
    await page.keyboard.press('Enter');
  };
  await ask('offline');
  await page.getByRole('alert').getByText('HF_HUB_OFFLINE is set').waitFor();
  await ask('nothing');
  await page.getByText('No repository with GGUF files matches.').waitFor();
  await ask('owner/none');
  await page.getByRole('alert').getByText('There is no repository owner/none.').waitFor();
  await field.fill('owner/none:Q8_0');
  await page.getByRole('button', { name: 'Pull', exact: true }).waitFor();
  await ask('owner/none:Q8_0');
  await page.getByRole('alert').getByText('There is no owner/none:Q8_0 on the hub.').waitFor();
  await page.getByRole('button', { name: 'Dismiss' }).click();

  await ask('repo');
  await page.getByRole('alert').getByText('The hub is away.').waitFor();
  isAway = false;
  await page.getByRole('button', { name: 'Search' }).click();
  const found = page.getByRole('list', { name: 'Found on the hub' });
  t.match(await found.innerText(), /owner\/repo\s*12,345 downloads, 6 likes\s*other\/gated\s*license to accept/);
  await found.getByRole('button', { name: /owner\/repo/ }).click();
  const offers = page.getByRole('region', { name: 'Models of owner/repo' });
  t.match(await offers.getByRole('row').nth(1).innerText(), /Q4_K_M recommended\s+1\.0 GiB\s+1\.5 GiB\s+fits\s+Pull/);
  t.match(await offers.getByRole('row').nth(2).innerText(), /F16\s+900\.0 GiB\s+1000\.0 GiB\s+too large/);
  await offers.getByRole('button', { name: 'Pull owner/repo:Q4_K_M' }).click();
  await page.getByText('1.0 MiB of 4.0 MiB, 25 %').waitFor();
  await ask('owner/repo:F16');
  await page.getByText('owner/repo:Q4_K_M is being pulled. Pull owner/repo:F16 after it, or pause it.').waitFor();
  t.equal(pulls, 1);
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('Paused. It resumes where it stopped.').waitFor();
  t.equal(await page.evaluate('document.activeElement.textContent'), 'Resume', 'one button, which keeps the focus');
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByText('2.0 MiB of 4.0 MiB, 50 %').waitFor();
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('Paused. It resumes where it stopped.').waitFor();
  // As a proxy passes on a reply that its server did not complete.
  await page.route('**/api/pull', (route) => route.fulfill({ contentType: 'application/x-ndjson', body: '{"status":"pulling abcdef012345","digest":"sha256:ab","total":4,"completed":3}\n' }), { times: 1 });
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByText('The connection ended before the download was complete.').waitFor();
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('3.0 MiB of 4.0 MiB, 75 %').waitFor();
  finish();
  await page.getByText('Pulled owner/repo:Q4_K_M').waitFor();

  await table.getByRole('button', { name: 'Delete owner/model' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  t.strictSame(removed, []);
  await table.getByRole('button', { name: 'Delete owner/model' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('Deleted owner/model').waitFor();
  t.strictSame(removed, ['owner/model']);
  own.push('owner/model');
  await page.reload();
  await table.getByRole('row').nth(1).waitFor();
  await table.getByRole('button', { name: 'Delete owner/model' }).waitFor({ state: 'detached' });
  t.strictSame(complaints, []);
});

t.test('a server without a store says so', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page } = await openPage(t, 'chromium', `${url}/#/models`);
  await page.getByRole('searchbox', { name: 'Get a model from the hub' }).fill('llama');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('it brings none from the hub').waitFor();
  t.equal((await fetch(`${url}/ui/hub`)).status, 400);
});

t.test('the real server searches a hub, pulls, names, keeps and unloads models', { skip: missing('chromium') }, async (t) => {
  const bytes = readFileSync(`${root}/builtin/builtin.gguf`);
  const hub = await FakeHub.start(t, [{ name: 'owner/toy-GGUF', files: [{ path: 'toy-Q8_0.gguf', bytes }] }, { name: 'owner/secret', files: [], privacy: 'private' }]);
  const running = start(['api', '--port', '0'], { env: hub.environment(t.testdir()) });
  t.teardown(async () => {
    running.child.kill('SIGTERM');
    await running.ended;
  });
  const [, port] = await running.saw(/Recua listens on http:\/\/\S+:(\d+)/);
  const url = `http://127.0.0.1:${port}`;
  const status = async (path: string, headers: Record<string, string> = {}): Promise<number> => (await fetch(`${url}/ui/hub${path}`, { headers })).status;
  t.equal(await status(''), 400);
  t.equal(await status('?search=a&repository=b/c'), 400);
  t.equal(await status(`?search=${'x'.repeat(201)}`), 400);
  t.equal(await status('?repository=../../etc'), 400);
  t.equal(await status('?repository=owner/secret'), 404);
  t.equal(await status('?search=toy', { origin: 'https://evil.example' }), 403);
  t.equal(await status('?search=toy', { 'x-forwarded-for': '192.0.2.1' }), 403);

  const { page, complaints } = await openPage(t, 'chromium', `${url}/#/models`);
  await page.getByRole('searchbox', { name: 'Get a model from the hub' }).fill('toy');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: /owner\/toy-GGUF/ }).click();
  let isSlow = true;
  hub.onSend = (_piece, offset) => (isSlow && offset > bytes.length / 2 ? new Promise(() => undefined) : undefined);
  await page.getByRole('button', { name: 'Pull owner/toy-GGUF:Q8_0' }).click();
  await page.getByRole('status').getByText(/ of .*, [1-9]\d? %/).waitFor();
  const unfinished = page.getByRole('list', { name: 'Unfinished downloads' });
  t.equal(await unfinished.count(), 0, 'the download is shown once');
  await page.reload();
  await unfinished.getByText(/owner\/toy-GGUF\s*[1-9]\d? % downloaded/).waitFor();
  isSlow = false;
  await unfinished.getByRole('button', { name: 'Resume owner/toy-GGUF' }).click();
  await unfinished.waitFor({ state: 'detached' });
  const table = page.getByRole('region', { name: 'Models of this server' });
  const row = table.getByRole('row', { name: /owner\/toy-GGUF/ });
  await row.waitFor();
  t.equal(await table.getByRole('button', { name: /^(Add a name for|Delete) / }).count(), 2, 'none on the row of builtin');
  await row.getByRole('button', { name: /^Add a name for/ }).click();
  const typed = page.getByRole('dialog').getByRole('textbox');
  await typed.fill('../mine');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByRole('alert').waitFor();
  t.equal(await typed.inputValue(), '../mine', 'it can be corrected');
  await typed.fill('mine');
  await page.keyboard.press('Enter');
  await row.getByRole('listitem').getByText('mine').waitFor();
  const parameters = row.locator('[data-label=parameters]');
  await parameters.getByText(/^1\.\dM$/).waitFor();
  await row.getByRole('button', { name: 'Load', exact: true }).click();
  await row.getByText('loaded', { exact: true }).waitFor();
  t.match(await parameters.innerText(), /^1\.\dM$/, 'rounded the same while loaded');
  const keep = row.getByRole('button', { name: /^Keep / });
  await keep.click();
  await row.getByRole('button', { name: /^Keep /, pressed: true }).waitFor();
  t.match(await page.evaluate('document.activeElement.getAttribute("aria-label")'), /^Keep /, 'it has the focus still');
  const expires = async (): Promise<number | null> => {
    const { data } = await (await fetch(`${url}/v1/models`)).json() as { data: { aliases: string[]; expires_at: number | null }[] };
    return data.find(({ aliases }) => aliases.includes('mine'))!.expires_at;
  };
  t.equal(await expires(), null);
  await keep.click();
  await row.getByRole('button', { name: /^Keep /, pressed: false }).waitFor();
  t.type(await expires(), 'number');
  await row.getByRole('button', { name: 'Remove the name mine' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
  await row.getByRole('listitem').waitFor({ state: 'detached' });
  t.equal(await row.count(), 1, 'the model stays');
  t.strictSame(complaints, []);
});

t.test('a model that is not loaded is described by the file that has its name now, also after a failure', { skip: missing('chromium') }, async (t) => {
  const { url } = await startApp(t);
  const { page, complaints } = await openPage(t, 'chromium', url);
  let [created, isAway] = [1, true];
  await page.route('**/v1/models', (route) => route.fulfill({ json: { object: 'list', data: [{ id: 'owner/model', object: 'model', created, status: { value: 'unloaded' } }] } }));
  await page.route('**/api/show', (route) => (isAway ? route.abort() : route.fulfill({ json: { details: { parameter_size: '1.2B', quantization_level: created === 1 ? 'Q4_K_M' : 'Q8_0' } } })));
  const failed = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/api/show'));
  await page.goto(`${url}/#/models`);
  await failed;
  isAway = false;
  const quantization = page.getByRole('row', { name: /owner\/model/ }).locator('[data-label=quantization]');
  await quantization.getByText('Q4_K_M').waitFor();
  created = 2;
  await quantization.getByText('Q8_0').waitFor();
  t.strictSame(complaints, []);
});
