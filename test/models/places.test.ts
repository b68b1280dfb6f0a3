import t from 'tap';
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { findPlaces } from '#recua/models/places.js';
import { mainPath, recua } from '../cli/recua.js';

t.test('by default models are in the hub\'s cache, and chats where nobody clears a cache', (t) => {
  t.strictSame(findPlaces({ HOME: '/home/ana' }), {
    hub: '/home/ana/.cache/huggingface/hub',
    sessions: '/home/ana/.local/share/recua/sessions',
    state: '/home/ana/.local/share/recua/state',
    tokenFile: '/home/ana/.cache/huggingface/token',
  });
  t.equal(findPlaces({ HOME: '/home/ana', XDG_CACHE_HOME: '/caches' }).hub, '/caches/huggingface/hub');
  t.match(findPlaces({ HOME: '/home/ana', XDG_DATA_HOME: '/data', HF_HOME: '/hf' }), { hub: '/hf/hub', sessions: '/data/recua/sessions', state: '/data/recua/state' });
  t.match(findPlaces({ HOME: '/home/ana', XDG_DATA_HOME: 'data' }), { state: '/home/ana/.local/share/recua/state' }, 'a relative path is ignored');
  t.equal(findPlaces({ HOME: '/home/ana', SERVICE_HOME: '', HF_HOME: '' }).hub, '/home/ana/.cache/huggingface/hub', 'an empty variable is none');
  t.end();
});

t.test('the more specific variable wins, and of equal ones that of Recua', (t) => {
  const all = { HOME: '/h', SERVICE_HOME: '/service', HF_HOME: '/hf', HF_HUB_CACHE: '/cache', HUB_HOME: '/hubhome' };
  t.equal(findPlaces(all).hub, '/hubhome');
  t.equal(findPlaces({ ...all, HUB_HOME: undefined }).hub, '/cache');
  t.equal(findPlaces({ ...all, HUB_HOME: undefined, HF_HUB_CACHE: undefined }).hub, '/service/hub');
  t.equal(findPlaces({ HOME: '/h', HF_HOME: '/hf' }).hub, '/hf/hub');
  t.match(findPlaces(all), { sessions: '/service/sessions', state: '/service/recua', tokenFile: '/hf/token' });
  t.equal(findPlaces({ HOME: '/h', SERVICE_HOME: '~/models' }).hub, '/h/models/hub');
  t.end();
});

t.test('a variable that names no folder is told of, and stops no command that needs no store', async (t) => {
  const file = t.testdir({ file: '' });
  t.equal(findPlaces({ HOME: '/h', HUB_HOME: '/dev/null' }).hub, '/dev/null');
  for (const name of ['HUB_HOME', 'HF_HUB_CACHE']) {
    const options = { env: { HUB_HOME: '', HF_HUB_CACHE: '', [name]: join(file, 'file') } };
    t.match(await recua(['list'], '', options), { code: 1, stderr: /^recua: The model store's folder .*file cannot be read/ });
    t.match(await recua(['run', 'builtin', '-p', 'Hi', '-n', '2', '-q'], '', options), { code: 0 });
  }
});

t.test('an empty HOME is none, and a relative one is made absolute', async (t) => {
  for (const HOME of ['', 'here']) {
    const { code, stdout } = await recua(['config'], '', { env: { HOME, XDG_CONFIG_HOME: '', SERVICE_HOME: '', HF_HOME: '', XDG_CACHE_HOME: '', XDG_DATA_HOME: '' } });
    t.equal(code, 0);
    for (const row of [/^ +config file +\//m, /^ +state +\//m, /^ +token file +\//m]) t.match(stdout, row);
  }
});

/** Runs a command as a user that has no entry in the system's list of users. */
const asNobody = ['setpriv', '--reuid=54321', '--clear-groups', 'env', '-u', 'HOME', '-u', 'NODE_OPTIONS'] as const;
const canBeNobody = spawnSync(asNobody[0], [...asNobody.slice(1), 'test', '-r', mainPath]).status === 0;

t.test('without a home folder, commands say what to do', { skip: !canBeNobody && 'only root can be another user' }, async (t) => {
  const env = { HOME: '', XDG_CONFIG_HOME: '', SERVICE_HOME: '', HF_HOME: '', XDG_CACHE_HOME: '', XDG_DATA_HOME: '' };
  for (const words of [['config'], ['run', 'builtin', 'Hi']]) {
    const { code, stderr } = await recua(words, '', { env, through: asNobody });
    t.equal(code, 2);
    t.match(stderr, /^recua: Expected a home folder, .* Set HOME to a folder of this user\.\n$/);
  }
});

t.test('HUB_HOME may be the cache or the folder around it', (t) => {
  const folder = t.testdir();
  t.equal(findPlaces({ HOME: '/h', HUB_HOME: folder }).hub, folder);
  mkdirSync(join(folder, 'hub'));
  t.equal(findPlaces({ HOME: '/h', HUB_HOME: folder }).hub, join(folder, 'hub'));
  t.end();
});
