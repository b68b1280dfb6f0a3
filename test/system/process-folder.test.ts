import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import t from 'tap';
import { ProcessFolder, removeLeftOvers } from '#recua/system/process-folder.js';
import { ownIdentity } from '#recua/system/process-identity.js';
import { deadProcess } from './dead-process.js';

const prefix = 'things-';

t.test('a folder is private, names its process, and is removed with all that is in it', async (t) => {
  const parent = t.testdir();
  const folder = new ProcessFolder(parent, prefix);
  if (process.platform !== 'win32') t.equal(statSync(folder.path).mode & 0o777, 0o700);
  await folder.owned;
  t.strictSame(JSON.parse(readFileSync(join(folder.path, 'owner'), 'utf8')), await ownIdentity());
  writeFileSync(join(folder.path, 'one'), '');
  await folder.remove();
  await folder.remove();
  t.strictSame(readdirSync(parent), []);
});

t.test('folders of dead processes are removed; live, unfinished and foreign ones stay', async (t) => {
  const parent = t.testdir({ [`${prefix}file00`]: '', other: {}, elsewhere: { one: '' } });
  const living = new ProcessFolder(parent, prefix);
  t.teardown(() => living.remove());
  await living.owned;
  const dead = JSON.stringify(await deadProcess());
  const make = (name: string, owner?: string): void => {
    mkdirSync(join(parent, prefix + name));
    if (owner !== undefined) writeFileSync(join(parent, prefix + name, 'owner'), owner);
  };
  make('dead00', dead);
  mkdirSync(join(parent, `${prefix}dead00`, 'part'));
  writeFileSync(join(parent, `${prefix}dead00`, 'part', 'one'), 'what a user wrote');
  symlinkSync(join(parent, 'elsewhere'), join(parent, `${prefix}dead00`, 'link'), 'junction');
  make('made00');
  make('empty0');
  utimesSync(join(parent, `${prefix}empty0`), 1, 1);
  make('full00');
  writeFileSync(join(parent, `${prefix}full00`, 'mine'), '');
  utimesSync(join(parent, `${prefix}full00`), 1, 1);
  make('cut000', dead.slice(0, 10));
  make('notes', dead);
  make('blank0', '');
  writeFileSync(join(parent, 'elsewhere', 'owner'), dead);
  symlinkSync(join(parent, 'elsewhere'), join(parent, `${prefix}link00`), 'junction');
  await removeLeftOvers(parent, prefix);
  const stays = ['blank0', 'cut000', 'file00', 'full00', 'link00', 'made00', 'notes'].map((name) => prefix + name);
  t.strictSame(readdirSync(parent).sort(), [basename(living.path), 'elsewhere', 'other', ...stays].sort());
  t.strictSame(readdirSync(join(parent, 'elsewhere')).sort(), ['one', 'owner']);
});

t.test('a parent that cannot be listed has none', async (t) => {
  await removeLeftOvers(join(t.testdir(), 'missing'), prefix);
});
