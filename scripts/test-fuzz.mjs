// `npm run test:fuzz [-- --count N --seed N --only KIND,KIND]`: sends a number of hostile inputs of
// each kind (test/fuzz/), after set-up if it is missing. Exits with 1 if a case breaks a promise.
import { join } from 'node:path';
import { place } from './place.mjs';
import { show } from './process.mjs';
import { program, setUp } from './setup.mjs';
import { compileTests } from './typescript.mjs';

await program(async () => {
  await setUp();
  await compileTests();
  return show(process.execPath, [join(place.distTest, 'fuzz', 'main.js'), ...process.argv.slice(2)]);
});
