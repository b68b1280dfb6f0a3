import t from 'tap';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { findPlaces } from '#recua/models/places.js';

t.test('by default everything is in the hub\'s cache folder', (t) => {
  t.strictSame(findPlaces({ HOME: '/home/ana' }), {
    hub: '/home/ana/.cache/huggingface/hub',
    sessions: '/home/ana/.cache/huggingface/sessions',
    state: '/home/ana/.cache/huggingface/recua',
    tokenFile: '/home/ana/.cache/huggingface/token',
  });
  t.equal(findPlaces({ HOME: '/home/ana', XDG_CACHE_HOME: '/caches' }).hub, '/caches/huggingface/hub');
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

t.test('HUB_HOME may be the cache or the folder around it', (t) => {
  const folder = t.testdir();
  t.equal(findPlaces({ HOME: '/h', HUB_HOME: folder }).hub, folder);
  mkdirSync(join(folder, 'hub'));
  t.equal(findPlaces({ HOME: '/h', HUB_HOME: folder }).hub, join(folder, 'hub'));
  t.end();
});
