// `npm run test:fuzz [-- --count N --seed N --only KIND,KIND]`: hostile input of each kind by count
// (test/fuzz/), with set-up where it is missing. Ends with 1 where a case breaks a promise.
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
