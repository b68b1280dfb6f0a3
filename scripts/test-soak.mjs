// `npm run test:soak [-- --minutes N --clients N --kills N] [-- FLAG...]`: all kinds of traffic on
// one living server (test/soak/), with set-up where it is missing. Ends with 1 where a promise
// broke.
import { join } from 'node:path';
import { place } from './place.mjs';
import { show } from './process.mjs';
import { program, setUp } from './setup.mjs';
import { compileTests } from './typescript.mjs';

await program(async () => {
  await setUp();
  await compileTests();
  return show(process.execPath, [join(place.distTest, 'soak', 'main.js'), ...process.argv.slice(2)]);
});
