// `npm run build`: the native addon and the TypeScript, without installing packages. binding.gyp
// also runs this.
import { existsSync } from 'node:fs';
import { place } from './place.mjs';
import { Failure } from './process.mjs';
import { say } from './progress.mjs';
import { program, setUp } from './setup.mjs';

await program(async () => {
  if (!existsSync(place.nodeModules)) throw new Failure('There is no node_modules folder. Run `npm run setup`, which installs and builds.');
  if (!(await setUp({ install: false }))) say('Everything is up to date.');
});
